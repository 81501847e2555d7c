"""lineax: the engines of ldiv as a linear solver, and sparse arrays as linear operators; for
diffrax and optimistix too.

    A = ldiv.lineax.SparseOperator(array, tags);    lineax.linear_solve(A, b, ldiv.lineax.Solver()).value
    optimistix.Newton(rtol, atol, linear_solver=ldiv.lineax.Solver(sparsity=pattern))

lineax differentiates `linear_solve` itself, by solves with A and A^T; here are the solves. They run
on the host, where the factorization is kept in a bounded store: one for the value, its tangents,
its cotangents, and every step that keeps the matrix.

Errors are lineax's: a solve that ldiv refuses (singular, a broken promise, NaN) gives NaN and
`RESULTS.singular`, which `linear_solve` raises, or returns where `throw=False`: so adaptive steps
can be rejected and tried again.
"""

from ldiv.core.frameworks.dispatch import load_frontends
from ldiv.errors import expected_got

try:
    from ldiv.lineax.operator import SparseOperator
    from ldiv.lineax.solver import Solver
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        expected_got("ldiv.lineax", "lineax and JAX", str(missing), "pip install 'ldiv[lineax]'."),
        name=missing.name,
    ) from None

load_frontends()  # JAX hears that matrices are trees

__all__ = ["Solver", "SparseOperator"]
