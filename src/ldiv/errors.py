"""Errors of ldiv and their messages: what was asked, what came, what to do."""

from __future__ import annotations

import copyreg
import warnings
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

import numpy as np


class Portable(Exception):
    """An error whose arguments make its message. Copied and pickled, as processes do with it, as
    message and attributes.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]  # __init__ is not called again


OF_SINGULAR_MATRICES = (
    "(a) a free rigid motion or a missing boundary condition, "
    "(b) an empty or repeated row or column, "
    "(c) parameters so far apart that rounding removed the smaller ones. "
    "Fix the model, add a small multiple of the identity, or name the null space, "
    "ldiv.solve(A, b, null_space=v); "
    "from single precision go to float64."
)
OF_INFINITE_EIGENVALUES = (
    "(a) unknowns without mass: empty rows and columns, (b) constraints among the unknowns, "
    "(c) parameters so far apart that rounding removed the smaller ones. "
    "Find the finite eigenvalues near a number, ldiv.eigs(A, k, M, sigma=1.0), which need no inverse."
)
OF_SHIFTS = (
    "(a) an eigenvalue at this shift, as 0 of a free rigid motion, (b) a null space that both matrices share. "
    "Against (a) move the shift a little: ldiv.eigsh(A, k, M, sigma=-0.01) finds eigenvalues near 0, "
    "and ldiv.eigs(A, k, M, sigma=-0.01) those of any matrix. "
    "For svds with which='SM' the matrix is singular: ldiv.svdvals(A.toarray()) finds its smallest values."
)
OF_DEPENDENT_COLUMNS = (
    "(a) columns that are combinations of others in the model, a constant beside all its indicators say, "
    "(b) fewer independent rows than columns, (c) columns that differ by rounding alone. "
    "Leave columns out, or take the solution of least norm, ldiv.pinv(a) @ b."
)
OF_UNSTABLE_LOOPS = (
    "(a) a mode on the boundary of stability that the input does not reach, (b) one that Q does not see, "
    "(c) R or Q that is not definite. Look at the eigenvalues of A, and at what B and Q do to their vectors."
)
OF_PAIRS_OF_EIGENVALUES = (
    "(a) a mode that is shared, (b) a mode on the boundary of stability, where the equation of Lyapunov or Stein has no solution, "
    "(c) eigenvalues so far apart that the small ones are rounding of the large ones. "
    "Move one of the spectra; from single precision go to float64."
)
OF_INDEFINITE_HESSIANS = (
    "(a) a saddle point or a maximum, where the gradient vanishes too, (b) unknowns that no residual determines, or only a combination of them, "
    "(c) fewer residuals than unknowns. Start elsewhere, fix unknowns, or add residuals: a prior, weight * (x - x_prior)."
)
OF_NO_MODE = (
    "(a) a saddle point or a maximum of f, (b) unknowns that f does not determine, or only a combination of them: give them a prior, "
    "(c) parameters at which f has no minimum. Start elsewhere, or look at f along these unknowns."
)
OF_SINGULAR_JACOBIANS = (
    "(a) no root: Newton's method runs to where |f| is least, (b) a root of a higher order, or one that is not isolated, "
    "(c) a start where f does not depend on an unknown. Start elsewhere, or look at f."
)


class LinAlgError(Portable, np.linalg.LinAlgError, RuntimeError):
    """NumPy's error, which is a ValueError, and the RuntimeError that PyTorch, SuperLU and ARPACK
    raise for the same.
    """


class SingularMatrixError(LinAlgError):
    """The matrix is singular, or so close to it that no digit of a solution is certain.

    `certain`: whoever found it has shown it, an empty row say, so that no other engine need be
    asked.
    """

    def __init__(
        self,
        engine: str,
        evidence: str,
        certain: bool = False,
        what: str = "the matrix",
        causes: str = "",
        verdict: str = "is singular",
    ) -> None:
        self.engine, self.evidence, self.certain = engine, evidence, certain
        super().__init__(
            f"{what} {verdict} to working precision: {engine} found {evidence}. Likely causes: {causes or OF_SINGULAR_MATRICES}"
        )


class NotPositiveDefiniteError(LinAlgError):
    """The matrix must be positive definite, and is not.

    `to_promise`, `plain`: the message of a function with an argument `assume_a`, and of others.
    """

    def __init__(
        self, engine: str, evidence: str, what: str = "the matrix", causes: str = ""
    ) -> None:
        self.engine, self.evidence = engine, evidence

        def sentence(promised: str, instead: str) -> str:
            if causes:
                return f"{what} must be positive definite, but {engine} found {evidence}. Likely causes: {causes}"
            return (
                f"{what} must be positive definite{promised}, but {engine} found {evidence}. Likely causes: "
                f"(a) a saddle point or a shifted operator, which is indefinite{instead}, "
                "(b) a wrong sign in the assembly, (c) a boundary condition imposed by zero rows, "
                "(d) a singular matrix, which is semidefinite at best."
            )

        self.to_promise = sentence(" (assume_a='pos')", ": use assume_a='her' (or 'sym')")
        self.plain = sentence("", "")
        super().__init__(self.to_promise)  # where a compiled program raises it, too


class NotSymmetricError(Portable, ValueError):
    """The matrix must be symmetric or Hermitian, and is not.

    `to_promise`, `plain`: the message of a function with an argument `assume_a`, and of others.
    """

    def __init__(self, defect: float, transpose: str) -> None:
        differs = f"differs from its {transpose} by {defect:.1e} of the largest entries of a row and a column"
        kind = "symmetric" if transpose == "transpose" else "Hermitian (symmetric)"
        both = "A triangle alone is not enough: ldiv reads both."
        self.to_promise = (
            f"a symmetric structure was promised, but A {differs}. Rounding is forgiven, this is more: "
            f"use assume_a='gen', or pass the symmetric part yourself. {both}"
        )
        self.plain = (
            f"the matrix must be {kind}, but {differs}. Rounding is forgiven, this is more: "
            f"pass the symmetric part, or call a function for matrices without symmetry. {both}"
        )
        super().__init__(self.to_promise)  # where a compiled program raises it, too


OF_SYSTEMS = (
    "(a) a badly conditioned matrix and no preconditioner: 'jacobi', 'amg' (for gmres and bicgstab 'ilu') or a factorization of a nearby "
    "matrix, (b) maxiter too small, (c) an rtol below what rounding allows, (d) a singular matrix, (e) a method for another kind of "
    "matrix (cg: positive definite; minres: Hermitian; gmres, bicgstab: any)."
)
OF_EIGENPAIRS = (
    "(a) eigenvalues that lie close together: ask for more pairs, or a larger ncv, (b) maxiter too "
    "small, (c) a tol below what rounding allows, (d) many eigenvalues at the wanted end, and no shift near it."
)
OF_BLOCKS_OF_EIGENPAIRS = (
    "(a) eigenvalues that lie close together: ask for more pairs, (b) maxiter too small, "
    "(c) a tol below what rounding allows, (d) no preconditioner."
)
OF_ROOTS = (
    "(a) a start far from the root, (b) a Jacobian that is singular, or nearly, on the way, (c) no root, or a function with kinks, "
    "(d) maxiter too small, (e) a tol below what rounding allows."
)
OF_GIVEN_ROOTS = (
    "(a) an x that is no root of f for these params, (b) a Jacobian that is singular at x, or nearly, (c) an x with fewer digits than tol asks for. "
    "ldiv.root finds a root from x."
)
OF_LEAST_SQUARES = (
    "(a) a badly conditioned matrix: scale its columns, or say damp > 0, (b) {limit} too small, (c) an atol or btol below what rounding "
    "allows. ldiv.lstsq solves by a factorization."
)
OF_MINIMA = (
    "(a) a start far from the minimum, (b) no minimum: unknowns that run away to infinity, (c) unknowns that the residuals hardly determine, "
    "(d) a residual with kinks or jumps, (e) maxiter too small. Start nearer, scale the unknowns, or fit the logarithm of a positive one."
)

OF_MODES = (
    "(a) a start far from the mode, (b) no mode: unknowns that run away to infinity, or f without a lower bound, (c) unknowns that f hardly "
    "determines, (d) an f with kinks or jumps, (e) maxiter too small. Start nearer, give priors, or write positive unknowns as exponentials."
)


class LinAlgOverflowError(np.linalg.LinAlgError, OverflowError):
    """A result, or a number on the way to it, is larger than its dtype can hold."""


def overflowed(what: str) -> LinAlgOverflowError:
    return LinAlgOverflowError(
        f"{what} overflows: it is infinite or NaN, although all numbers that came in are finite. "
        "Multiply the matrix or the right-hand side by a power of two (an exact change of units); from single precision go to float64."
    )


class ConvergenceError(LinAlgError):
    """An iteration did not reach the accuracy that was asked for."""

    def __init__(
        self,
        engine: str,
        iterations: int,
        residual: float | None,
        rtol: float,
        what: str = "",
        causes: str = OF_EIGENPAIRS,
    ) -> None:
        self.iterations, self.residual = iterations, residual
        if not what:
            what, causes = (
                f"the residual is {residual:.1e} of b, and {rtol:.1e} was asked for",
                OF_SYSTEMS,
            )
        elif residual is not None:
            what = f"{what}: {residual:.1e}, and {rtol:.1e} was asked for"
        super().__init__(
            f"{engine} did not converge: after {iterations} steps {what}. Likely causes: {causes}"
        )


class NotNumbersError(TypeError, ValueError):
    """An array of text, bytes or objects: a TypeError for PyTorch and NumPy, a ValueError for
    SciPy.
    """


class NotDifferentiableError(ValueError):
    """A derivative was asked for where none exists."""


class QuadraticProgramError(Portable, ValueError):
    """A quadratic program has no solution.

    `status` is "infeasible" or "unbounded", and `certificate` proves it.
    """

    def __init__(self, status: str, certificate: Any, proof: str, where: str = "") -> None:
        self.status, self.certificate = status, certificate
        where = where or "Look at the constraints that it names."
        super().__init__(
            f"the quadratic program is {status}: `certificate` of this error is a {proof}. {where}"
        )


class EngineError(ValueError):
    """No engine can do what was asked; the message says what each of them answered."""


class EngineUnavailableError(Portable, EngineError):
    """Raised by an engine that can no longer work in this process; the next engine takes over."""

    def __init__(self, engine: str, why: str) -> None:
        self.evidence = why
        super().__init__(f"{engine} {why}. method='auto' takes another engine.")


LONGEST = 60  # characters that a message shows of a value


def shown(value: Any) -> str:
    """A value in a message: a short text, whatever it is."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    try:
        return f"{type(value).__name__} {tuple(value.shape)}"
    except Exception:  # it has none
        pass
    try:
        text = " ".join(repr(value).split())
    except Exception:
        # an integer of more than 4,300 digits, say, or anything in a class of somebody
        return f"{type(value).__name__} that cannot be shown"
    return text if len(text) <= LONGEST else f"{type(value).__name__} {text[:LONGEST]} ..."


def is_of_numbers(problem: Exception) -> bool:
    """Whether an error depends on the numbers, not on shapes, dtypes or engines alone."""
    independent = (
        np.linalg.LinAlgError,
        NotSymmetricError,
        NotDifferentiableError,
        QuadraticProgramError,
    )
    return isinstance(problem, independent) or getattr(problem, "of_numbers", False)


def of_numbers(problem: Exception) -> Exception:
    """Mark an error as one that depends on the numbers."""
    problem.of_numbers = True  # type: ignore[attr-defined]
    return problem


def report(problem: Exception) -> None:
    """Raise an error; give a warning."""
    if isinstance(problem, Warning):
        warnings.warn(problem, stacklevel=2)
        return
    try:
        raise of_numbers(problem)
    finally:
        # or its traceback would hold itself, and all that the callers hold, until the garbage
        # collector comes
        del problem


# words of other libraries
_ELSEWHERE = {
    **dict.fromkeys(("spd", "hpd", "posdef", "sympos", "sym_pos"), "pos"),
    **dict.fromkeys(("lower", "tril"), "lower triangular"),
    **dict.fromkeys(("upper", "triu"), "upper triangular"),
    **dict.fromkeys(("none", "unsymmetric", "nonsymmetric"), "gen"),
}


def meant(word: object, words: Iterable[str]) -> str:
    """Return the question whether one of these words is meant, and a space; empty if none is like it."""
    if not isinstance(word, str):
        return ""
    known = {w.lower(): w for w in words}
    near = get_close_matches(_ELSEWHERE.get(word.lower(), word.lower()), known, 1, 0.7)
    return f"Do you mean {known[near[0]]!r}? " if near else ""


def expected_got(what: str, expected: str, received: object, advice: str) -> str:
    """Return one sentence for bad input: what, expected, got, do this."""
    return f"{what}: expected {expected}, got {received}. {advice}"


def value_error(what: str, expected: str, received: object, advice: str) -> ValueError:
    """Return the error for a bad value, with the sentence of `expected_got`."""
    return ValueError(expected_got(what, expected, received, advice))


def type_error(what: str, expected: str, received: object, advice: str) -> TypeError:
    """Return the error for a bad type, with the sentence of `expected_got`."""
    return TypeError(expected_got(what, expected, received, advice))
