"""pymatsolver, the solvers of SimPEG: the engines of ldiv as one of them.

Ainv = ldiv.pymatsolver.Solver(A, is_positive_definite=True);    u = Ainv @ f
simpeg.utils.set_default_solver(ldiv.pymatsolver.Solver)
"""

from ldiv.errors import expected_got

try:
    from ldiv.pymatsolver.solver import Solver
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        expected_got(
            "ldiv.pymatsolver", "pymatsolver", str(missing), "pip install 'ldiv[pymatsolver]'."
        ),
        name=missing.name,
    ) from None

__all__ = ["Solver"]
