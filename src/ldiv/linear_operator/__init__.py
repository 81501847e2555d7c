"""linear_operator and GPyTorch: a matrix of ldiv as one of their operators.

    K = ldiv.linear_operator.MatrixLinearOperator(A);    K.inv_quad_logdet(y, logdet=True)

Sparse and structured covariances are factored as they are, and differentiated in their values.
"""

from ldiv.core.frameworks.dispatch import load_frontends
from ldiv.errors import expected_got

try:
    from ldiv.linear_operator.operator import MatrixLinearOperator
except ModuleNotFoundError as missing:
    advice = "pip install 'ldiv[linear-operator]'."
    raise ModuleNotFoundError(
        expected_got("ldiv.linear_operator", "linear_operator and PyTorch", str(missing), advice),
        name=missing.name,
    ) from None

load_frontends()  # PyTorch hears that matrices are trees

__all__ = ["MatrixLinearOperator"]
