"""scikit-fem: its elemental matrices with coefficients that are differentiated, its boundary
conditions, and the engines of ldiv as its solvers.

    u = skfem.solve(*skfem.condense(K, f, D=D), solver=ldiv.skfem.solver(assume_a="pos"))

    stiffness = ldiv.skfem.Assembly(form.elemental(basis))
    K = stiffness(c)                                            c: a number for each element
    u = ldiv.skfem.solve(*ldiv.skfem.condense(K, f, D=D), assume_a="pos")

The first line is scikit-fem's own way, on NumPy; the others have its names, and are differentiable
in c, f and the prescribed x, on the arrays of any framework.
"""

from ldiv.errors import expected_got

try:
    from ldiv.skfem.assembly import Assembly, at_points
    from ldiv.skfem.boundary import condense, expand
    from ldiv.skfem.solvers import eigen_solver, solve, solver
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        expected_got("ldiv.skfem", "scikit-fem", str(missing), "pip install 'ldiv[skfem]'."),
        name=missing.name,
    ) from None

__all__ = ["Assembly", "at_points", "condense", "eigen_solver", "expand", "solve", "solver"]
