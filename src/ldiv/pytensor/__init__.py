"""PyTensor, the graphs of PyMC: a sparse matrix whose values are one of their variables.

    Q = ldiv.pytensor.SparseArray(pattern, values)
    ldiv.pytensor.solve(A, b);    ldiv.pytensor.logdet(Q)
    pm.Potential("prior", ldiv.pytensor.gaussian_logpdf(x, precision=Q))

PyTensor differentiates all of them, and compiles them for its own linkers and for JAX.
"""

from ldiv.errors import expected_got

try:
    from ldiv.pytensor.functions import gaussian_logpdf, logdet, solve
    from ldiv.pytensor.matrix import SparseArray
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        expected_got("ldiv.pytensor", "pytensor", str(missing), "pip install 'ldiv[pytensor]'."),
        name=missing.name,
    ) from None

__all__ = ["SparseArray", "gaussian_logpdf", "logdet", "solve"]
