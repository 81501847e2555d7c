"""A x = lam B x over several processes by SLEPc, and the reduced resolvents of its derivative.

    Krylov-Schur    with (A - sigma B)^-1 by MUMPS if there is a sigma
    LOBPCG          for the lowest pairs, preconditioned by gamg or what M says

SLEPc stops where its own estimate is small. A gradient is as good as residuals are, so that these
are computed anew, after a Rayleigh-Ritz step, and decide. A Krylov space has one vector of each
repeated eigenvalue: a second search, orthogonal to what was found, looks for others. The pairs
found beyond those wanted serve the derivative: what lies in their span is known in closed form, and
is taken out of the systems
    (A - theta_i B) w_i = (I - B X X^H) r_i,    X^H B w_i = 0,
which KSP solves, by GMRES with the factor of A - sigma B, or else by MINRES.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ldiv.core.frameworks.trees import Tree
from ldiv.distributed import preconditioners
from ldiv.distributed.assembly import assembled, base_of
from ldiv.distributed.options import prefixed
from ldiv.distributed.petsc import petsc, slepc
from ldiv.engines.eigen.task import EigenTask
from ldiv.errors import ConvergenceError, SingularMatrixError
from ldiv.structures.identity import Identity

EPS = float(np.finfo(float).eps)
TIGHT = 1e-14  # what SLEPc is asked for, relative to the norms of the matrices
ENOUGH = 1e-10  # residuals of pairs, at most, relative to |A| + |lam| |B|
SOLVED = 1e-10  # residuals of the systems of the derivative, at most
WANTED = 1e-14
LOOK = 1e-8  # what is asked of a search for copies
STEPS = 2000
FACTORED = {"pc_factor_mat_solver_type": "mumps", "mat_mumps_icntl_14": "50"}


class Pencil:
    """A - lam B as matrices of PETSc, and their products with blocks of this process's rows."""

    def __init__(self, task: EigenTask, pA: Tree, pB: Tree) -> None:
        self.task, self.comm = task, base_of(task.A)[0].entries.processes
        self.parameters = base_of(task.A)[0].parameters.of(False)
        self.A = assembled(task.A, pA)
        self.B = None if isinstance(task.B, Identity) else assembled(task.B, pB)
        self._factor: Any = None
        self._eps: Any = None  # whose factor it is
        self.nbytes = int(self.A.getInfo()["memory"]) * 10

    def product(self, matrix: Any, x: Any) -> Any:
        """A x, or x for B = I."""
        if matrix is None:
            return np.array(x)
        left, right = matrix.createVecLeft(), matrix.createVecRight()
        y = np.empty_like(x)
        for q in range(x.shape[1]):
            right.array[...] = x[:, q]
            matrix.mult(right, left)
            y[:, q] = left.array
        return y

    def gram(self, x: Any, y: Any) -> Any:
        return self.comm.total(x.T @ y)

    def norm(self, x: Any) -> Any:
        """The norms of columns."""
        return np.sqrt(self.comm.total((x * x).sum(axis=0)))

    def size(self, matrix: Any) -> float:
        """|A| by Frobenius, divided by sqrt(n): of the order of its entries."""
        if matrix is None:
            return 1.0
        return float(matrix.norm(petsc().NormType.NORM_INFINITY))

    def shifted(self, theta: float) -> Any:
        """A - theta B, a new matrix."""
        matrix = self.A.copy()
        if self.B is None:
            matrix.shift(-theta)
        else:
            matrix.axpy(-theta, self.B)
        matrix.setOption(petsc().Mat.Option.SYMMETRIC, True)
        return matrix

    def factor(self) -> Any:
        """A solver with A - sigma B: that of the forward pass, if it is still there."""
        if self._factor is None:
            ksp = petsc().KSP().create(self.comm.comm)
            ksp.setOperators(self.shifted(float(self.task.sigma or 0.0)))
            petsc_options = {"ksp_type": "preonly", "pc_type": "cholesky", **FACTORED}
            with prefixed(petsc_options) as prefix:
                ksp.setOptionsPrefix(prefix)
                ksp.setFromOptions()
                ksp.setUp()
            self._factor = ksp
        return self._factor

    def keep_factor(self, eps: Any) -> None:
        """Keep the factor with which SLEPc has found the pairs nearest to sigma."""
        if self.task.sigma is not None:
            self._eps, self._factor = eps, eps.getST().getKSP()


# -- pairs --------------------------------------------------------------------


def count_of(task: EigenTask) -> int:
    """The number of pairs that are returned, guard pairs included."""
    return min(task.k + max(task.guard, 1), task.n)


def pairs(pencil: Pencil, start: Any) -> tuple[Any, Any, Any]:
    """lam (k + g,), X (rows, k + g), error_bound (k + g,); the wanted ones come first."""
    task, count = pencil.task, count_of(pencil.task)
    eps, x = _found(pencil, count, start)
    lam, x = _best(pencil, x, count)
    # a Krylov space has one vector of each repeated eigenvalue, others only by rounding, if at all
    searches = 0 if task.method == "lobpcg" or count == task.n else count
    for _ in range(searches):
        if (more := _missed(pencil, eps, lam, x)) is None:
            break
        lam, x = _best(pencil, np.concatenate([x, more], axis=1), count)
    residuals = pencil.product(pencil.A, x) - pencil.product(pencil.B, x) * lam
    size, whole = pencil.norm(residuals), pencil.norm(x)
    scale = (pencil.size(pencil.A) + np.abs(lam) * pencil.size(pencil.B)) * whole
    worst = float(np.max((size / np.where(scale == 0, 1, scale))[: task.k], initial=0))
    if not worst <= max(ENOUGH, task.tol):
        what = "the residual of a pair is too large"
        raise ConvergenceError("SLEPc", 0, worst, max(ENOUGH, task.tol), what)
    bound = size * whole + EPS * np.max(np.abs(lam), initial=0)
    return lam, x, bound


def not_served(task: EigenTask) -> str | None:
    """The reason why a task is for one process only, None if it is not."""
    if task.method not in ("auto", "lobpcg"):
        return (
            f"over several processes method={task.method!r} is not there: 'auto' is Krylov-Schur, "
            "and 'lobpcg' finds the lowest pairs."
        )
    served = ("LM",) if task.sigma is not None else ("LM", "LA", "SA")
    more = task.offset or task.positive or task.constraints or task.check
    if task.which not in served or more:
        return (
            "over several processes the pairs are those nearest to sigma (which='LM'), or at one "
            "end of the spectrum ('LA', 'SA', 'LM'), without mode, check and Y."
        )
    if task.method == "lobpcg" and (task.which != "SA" or task.sigma is not None):
        return "over several processes lobpcg finds the lowest pairs: largest=False, or which='SA'."
    return None


def described(task: EigenTask) -> str:
    """The options on which all processes must agree, in words."""
    base = base_of(task.A)[0]
    M = None if task.M is None else getattr(task.M, "name", type(task.M).__name__)
    B = None if isinstance(task.B, Identity) else base_of(task.B)[0].entries.number
    asked = ("which", "sigma", "method", "tol", "maxiter", "ncv", "guard", "start")
    words = ", ".join(f"{name}={getattr(task, name)}" for name in asked)
    own = dict(base.parameters.solver)
    return f"matrices {base.entries.number} and {B}, {words}, M={M}, {own}"


def _best(pencil: Pencil, x: Any, count: int) -> tuple[Any, Any]:
    """The `count` most wanted pairs in the span of x, the k wanted ones first."""
    lam, x = _rayleigh_ritz(pencil, x)
    order = np.asarray(pencil.task.order(lam))[:count]
    return lam[order], x[:, order]


def _missed(pencil: Pencil, eps: Any, lam: Any, x: Any) -> Any:
    """A vector orthogonal to those found, of an eigenvalue that is wanted more than the last of
    them; None if there is none. The factor of the first search serves this one, too.
    """
    task, count = pencil.task, len(lam)
    start = np.random.default_rng([count, pencil.comm.rank]).standard_normal((len(x), 1))
    start -= x @ pencil.gram(pencil.product(pencil.B, x), start)  # SLEPc leaves it as it is
    eps.setDimensions(1)
    for tol in (LOOK, max(TIGHT, task.tol)):  # a look, and for what it finds the whole way
        # of each solve: SLEPc forgets them
        eps.setDeflationSpace([_vector(pencil.A, column) for column in x.T])
        eps.setInitialSpace([_vector(pencil.A, start[:, 0])])
        eps.setTolerances(tol=tol, max_it=task.maxiter or STEPS)
        eps.solve()
        if eps.getConverged() == 0:
            what = "a search for copies of repeated eigenvalues has not converged"
            raise ConvergenceError("SLEPc", eps.getIterationNumber(), None, tol, what)
        theta, vector = eps.getEigenvalue(0).real, pencil.A.createVecRight()
        eps.getEigenvector(0, vector)
        start = vector.array[:, None].copy()
        every = np.append(lam, theta)
        wanted = count in np.asarray(replace(task, k=count).order(every))[:count]
        if not wanted or abs(theta - lam[-1]) <= 10 * LOOK * np.abs(every).max():
            return None
    return start


def _found(pencil: Pencil, count: int, start: Any) -> tuple[Any, Any]:
    """The solver of SLEPc, and vectors that span what it has found, at least `count`."""
    task, SLEPc = pencil.task, slepc()
    eps = SLEPc.EPS().create(pencil.comm.comm)
    eps.setOperators(pencil.A, pencil.B)
    kinds = SLEPc.EPS.ProblemType
    eps.setProblemType(kinds.HEP if pencil.B is None else kinds.GHEP)
    ncv = None if task.ncv is None else max(task.ncv, count + 1)
    if task.n <= 3 * count + 10:  # a small problem at a whole
        eps.setDimensions(count, task.n)
    else:
        eps.setDimensions(count, ncv) if ncv else eps.setDimensions(count)
    tight = max(TIGHT, task.tol)
    eps.setTolerances(tol=tight, max_it=task.maxiter or STEPS)
    eps.setConvergenceTest(SLEPc.EPS.Conv.NORM)
    eps.setTrueResidual(task.sigma is not None)
    whiches = SLEPc.EPS.Which
    petsc_options: dict[str, str | None] = {
        "eps_type": "lobpcg" if task.method == "lobpcg" else "krylovschur"
    }
    if task.sigma is not None:
        eps.setTarget(task.sigma)
        eps.setWhichEigenpairs(whiches.TARGET_MAGNITUDE)
        petsc_options |= {"st_type": "sinvert", "st_ksp_type": "preonly", "st_pc_type": "cholesky"}
        petsc_options |= {f"st_{name}": value for name, value in FACTORED.items()}
    else:
        ends = {"SA": "SMALLEST_REAL", "LA": "LARGEST_REAL", "LM": "LARGEST_MAGNITUDE"}
        eps.setWhichEigenpairs(getattr(whiches, ends[task.which]))
        if pencil.B is not None and task.method != "lobpcg":
            petsc_options |= {"st_ksp_type": "preonly", "st_pc_type": "cholesky"}
            petsc_options |= {f"st_{name}": value for name, value in FACTORED.items()}
    if task.method == "lobpcg":
        near = _near(task)
        petsc_options |= {"st_type": "precond", "st_ksp_type": "preonly"}
        petsc_options |= {f"st_{name}": value for name, value in near.items()}
        petsc_options |= {"eps_lobpcg_blocksize": str(count)}
    own = {k: v for k, v in pencil.parameters.items() if k.startswith(("eps_", "st_"))}
    with prefixed(petsc_options | own) as prefix:
        eps.setOptionsPrefix(prefix)
        eps.setFromOptions()
        if start is not None:
            eps.setInitialSpace([_vector(pencil.A, column) for column in start.T])
        eps.solve()
    pencil.keep_factor(eps)
    found = eps.getConverged()
    if found < count:
        residual = max((eps.getErrorEstimate(i) for i in range(found)), default=None)
        what = f"{found} of {count} pairs have converged"
        raise ConvergenceError("SLEPc", eps.getIterationNumber(), residual, tight, what)
    vector, x = pencil.A.createVecRight(), np.empty((pencil.task.A.shape[0], found))
    for i in range(found):
        eps.getEigenvector(i, vector)
        x[:, i] = vector.array
    return eps, x


def _near(task: EigenTask) -> dict[str, str | None]:
    """The preconditioner that M names; none by default, since A may be indefinite."""
    if isinstance(task.M, preconditioners.Named):
        return preconditioners.NAMES[task.M.name]
    return {"pc_type": "none"}


def _vector(matrix: Any, x: Any) -> Any:
    vector = matrix.createVecRight()
    vector.array[...] = x
    return vector


def _rayleigh_ritz(pencil: Pencil, x: Any) -> tuple[Any, Any]:
    """The pairs in the span of x, orthonormal in B; one process computes the small matrices."""
    for _ in range(2):
        gram = pencil.gram(x, pencil.product(pencil.B, x))
        turn = pencil.comm.comm.bcast(_orthonormalizing(gram), root=0)
        if turn is None:
            raise SingularMatrixError(
                "SLEPc", "vectors that depend on each other, or a B that is not positive definite"
            )
        x = x @ turn
    small = pencil.gram(x, pencil.product(pencil.A, x))
    lam, turn = pencil.comm.comm.bcast(np.linalg.eigh((small + small.T) / 2), root=0)
    return lam, x @ turn


def _orthonormalizing(gram: Any) -> Any:
    """C with C^T G C = I; None for a G that is not positive definite."""
    try:
        return np.linalg.inv(np.linalg.cholesky((gram + gram.T) / 2)).T
    except np.linalg.LinAlgError:
        return None


# -- the systems of the derivative --------------------------------------------


def reduced(pencil: Pencil, theta: Any, r: Any, X: Any, guard: Any) -> tuple[Any, float]:
    """S_i r_i for each column, and the worst relative residual."""
    task, (gam, G, tolerance) = pencil.task, guard
    noise = 100 * EPS * pencil.norm(r)
    V = np.concatenate([X, G], axis=1)
    BV = pencil.product(pencil.B, V)
    r = r - BV[:, : X.shape[1]] @ pencil.gram(X, r)
    gap = gam[:, None] - theta[None, :]
    same = np.abs(gap) <= tolerance
    part = pencil.gram(G, r)
    w = G @ np.where(same, 0, part / np.where(same, 1, gap))
    if V.shape[1] == task.n:
        return w, 0.0
    r = r - BV @ pencil.gram(V, r)
    size = pencil.norm(r)
    worst = 0.0
    for i in range(r.shape[1]):
        if size[i] > noise[i]:
            system = _System(pencil, float(theta[i]), V, BV)
            try:
                more, residual = system.solve(r[:, i : i + 1])
            finally:
                system.destroy()
            w[:, i : i + 1] += more
            worst = max(worst, residual)
    return w, worst


class _System:
    """(A - theta B) w = r for r orthogonal to V, and w to B V."""

    def __init__(self, pencil: Pencil, theta: float, V: Any, BV: Any) -> None:
        self.pencil, self.theta, self.V, self.BV = pencil, theta, V, BV
        PETSc, comm, own = petsc(), pencil.comm.comm, pencil.A.getSizes()
        self.matrix = PETSc.Mat().createPython(own, _Product(self), comm=comm)
        self.matrix.setUp()
        self.ksp = PETSc.KSP().create(comm)
        self.ksp.setOperators(self.matrix)
        pc = self.ksp.getPC()
        pc.setType("python")
        if pencil.task.sigma is not None:
            self.ksp.setType("gmres")
            self.ksp.setGMRESRestart(100)
            self.ksp.setPCSide(PETSc.PC.Side.RIGHT)
            self.near = pencil.factor()
        else:
            self.ksp.setType("minres")
            self.near = self._preconditioner()
        pc.setPythonContext(_Near(self))

    def destroy(self) -> None:
        """Break the cycle between the solver and its contexts, which Python would never free."""
        self.ksp.destroy()
        self.matrix.destroy()

    def _preconditioner(self) -> Any:
        """The preconditioner for the lowest pairs, positive definite: M of A, or its diagonal."""
        ksp = petsc().KSP().create(self.pencil.comm.comm)
        ksp.setOperators(self.pencil.A)
        near = _near(self.pencil.task)
        with prefixed({"ksp_type": "preonly", **near}) as prefix:
            ksp.setOptionsPrefix(prefix)
            ksp.setFromOptions()
            ksp.setUp()
        return ksp

    def product(self, w: Any) -> Any:
        pencil = self.pencil
        y = pencil.product(pencil.A, w) - self.theta * pencil.product(pencil.B, w)
        return self.out(y)

    def out(self, y: Any) -> Any:
        """Project residuals: y - B V V^H y."""
        return y - self.BV @ self.pencil.gram(self.V, y)

    def inside(self, w: Any) -> Any:
        """Project solutions: w - V V^H B w."""
        return w - self.V @ self.pencil.gram(self.BV, w)

    def solve(self, r: Any) -> tuple[Any, float]:
        r, w = self.out(r), np.zeros_like(r)
        left, whole, before = r, float(self.pencil.norm(r)[0]), np.inf
        right, found = self.matrix.createVecLeft(), self.matrix.createVecRight()
        size, steps = whole, 0
        while size > WANTED * whole and size < before / 2 and steps < STEPS:
            self.ksp.setTolerances(rtol=1e-10, atol=0, max_it=STEPS)
            right.array[...] = left[:, 0]
            found.set(0)
            self.ksp.solve(right, found)
            steps += self.ksp.getIterationNumber()
            w_new = w + self.inside(found.array[:, None].copy())
            left_new = self.out(r - self.product(w_new))
            before, now = size, float(self.pencil.norm(left_new)[0])
            if not now < size:
                break
            w, left, size = w_new, left_new, now
        if not size <= SOLVED * whole:
            what = "a system of the derivative of eigenpairs is not solved"
            raise ConvergenceError(
                "PETSc's " + self.ksp.getType(), steps, size / whole, SOLVED, what
            )
        return w, size / whole


class _Product:
    """A context of PETSc for the product of a system."""

    def __init__(self, system: _System) -> None:
        self.system = system

    def mult(self, matrix: Any, x: Any, y: Any) -> None:
        y.array[...] = self.system.product(self.system.inside(x.array[:, None]))[:, 0]


class _Near:
    """A context of PETSc for the preconditioner of a system."""

    def __init__(self, system: _System) -> None:
        self.system, self.vectors = system, None

    def apply(self, pc: Any, x: Any, y: Any) -> None:
        system = self.system
        right, found = system.matrix.createVecLeft(), system.matrix.createVecRight()
        right.array[...] = system.out(x.array[:, None])[:, 0]
        system.near.solve(right, found)
        y.array[...] = system.inside(found.array[:, None])[:, 0]
