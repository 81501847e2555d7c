"""Hard systems by every engine, in every form: right, with right gradients, or refused as it
should be.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np

import ldiv
from adversarial.case import Case, Wrong
from adversarial.families import Dense, Rng
from adversarial.problems import Problem, System, draw, view
from ldiv.engines.registry import engines

FORMS = ("dense", "csc", "csr", "coo", "banded")
ITERATIVE = ("cg", "minres", "gmres", "bicgstab", "bicg", "cgs", "qmr", "tfqmr", "lgmres")
# of these none converges for every easy matrix, even without rounding; they say so
UNSURE = ("bicgstab", "bicg", "cgs", "qmr", "tfqmr")
# a backward error of (EXACT + 10 n) eps is none; a forward error may be as many eps, times the
# condition
EXACT = 100
REFUSED = (ldiv.SingularMatrixError, ldiv.NotPositiveDefiniteError, ldiv.EngineError)


def cases(seed: int) -> Iterator[Case]:
    """Endlessly: problem after problem."""
    for number in count():
        yield from of_number(seed, number)


def of_number(seed: int, number: int, of: Collection[str] = FORMS) -> Iterator[Case]:
    """One problem by every engine that says that it can, as a dense matrix, in one sparse form,
    and banded where few diagonals are full.
    """
    rng = np.random.default_rng([seed, number])
    problem = draw(rng)
    assume_a, trans = str(rng.choice(list(problem.assumptions))), str(rng.choice(["N", "T", "H"]))
    b, c = right_hand_sides(rng, problem, trans)
    is_banded = assume_a == "gen" and sum(bandwidth(problem.a)) < min(5, problem.n)
    forms = ("dense", str(rng.choice(["csc", "csr", "coo"])), *(["banded"] if is_banded else []))
    for form in filter(of.__contains__, forms):
        for method in methods(problem, form, assume_a):
            yield Solve(problem, form, assume_a, trans, method, b, c).case


def methods(problem: Problem, form: str, assume_a: str) -> list[str]:
    """The methods that claim to solve; iterations for small matrices only."""
    answers = ldiv.explain(matrix(problem.a, form)[0], assume_a=assume_a).answers
    able = [name for name, answer in answers.items() if answer.startswith(("taken", "could"))]
    return ["auto", *(name for name in able if name not in ITERATIVE or problem.n <= 20)]


def right_hand_sides(rng: Rng, problem: Problem, trans: str) -> tuple[Dense, Dense]:
    """b and the cotangent of x: of the size that the rows and columns have, or, where these are
    alike, of size 1; complex for a real A, too.
    """
    system, dtype = System.of(problem, trans), problem.a.dtype
    b, c = rng.standard_normal((2, problem.n, rng.choice([1, 3])))
    if dtype.kind == "c" or rng.random() < 0.1:
        b, c, dtype = (
            b + 1j * rng.standard_normal(b.shape),
            c - 1j * b,
            np.result_type(dtype, np.complex64),
        )
    natural = np.abs(np.log2([system.r, system.c])).max() < 20 and rng.random() < 0.5
    b, c = (b, c) if natural else (b / system.r, c / system.c)
    b, c = b.astype(dtype), c.astype(dtype)
    return (b[:, 0], c[:, 0]) if b.shape[1] == 1 and rng.random() < 0.7 else (b, c)


def matrix(a: Dense, form: str) -> tuple[Any, Dense]:
    """(A, the array of its values)."""
    if form == "dense":
        return (a.copy(),) * 2
    if form == "banded":
        lower, upper = bandwidth(a)
        ab = np.zeros((lower + upper + 1, len(a)), a.dtype)
        i, j = np.nonzero(a)
        ab[upper + i - j, j] = a[i, j]
        return ldiv.Matrix(ldiv.structures.Banded(lower, upper, len(a)), ab), ab
    if form == "coo":
        v, i, j = scattered(a)
        return ldiv.coo_array((v, (i, j)), shape=a.shape), v
    made, (outer, inner) = (
        (ldiv.csr_array, np.nonzero(a)) if form == "csr" else (ldiv.csc_array, np.nonzero(a.T))
    )
    v = (a if form == "csr" else a.T)[outer, inner]
    return made((v, inner, np.searchsorted(outer, np.arange(len(a) + 1))), shape=a.shape), v


def scattered(a: Dense) -> tuple[Dense, Dense, Dense]:
    """Values, rows, columns in any order, some entries in two halves, two zeros stored."""
    i, j = np.nonzero(a)
    halved = np.arange(len(i)) % 3 == 0
    order = np.random.default_rng(len(i)).permutation(
        np.concatenate([np.arange(len(i)), np.flatnonzero(halved)])
    )
    zeros = np.argwhere(a == 0)[:2]
    v = (a[i, j] * np.where(halved, 0.5, 1).astype(a.real.dtype))[order]
    return tuple(map(np.append, (v, i[order], j[order]), (np.zeros(len(zeros), a.dtype), *zeros.T)))  # type: ignore[return-value]


def bandwidth(a: Dense) -> tuple[int, int]:
    """The numbers of diagonals below and above."""
    i, j = np.nonzero(a)
    return int(max(0, (i - j).max(initial=0))), int(max(0, (j - i).max(initial=0)))


@dataclass(frozen=True, eq=False)
class Solve:
    """op(A) x = b by one method, and what must come of it."""

    problem: Problem
    form: str
    assume_a: str
    trans: str
    method: str
    b: Dense
    c: Dense

    @property
    def case(self) -> Case:
        label = f"{self.method}, {self.form if self.form in ('dense', 'banded') else 'sparse'}"
        return Case(label, self.problem.n, self.check, self.source, self.smaller)

    @property
    def iterates(self) -> bool:
        return self.method in ITERATIVE

    @property
    def kept_to(self) -> str:
        """The verdict on A under the assumption."""
        return self.problem.assumptions[self.assume_a]

    def solve(self, A: Any, b: Any) -> Any:
        return ldiv.solve(A, b, assume_a=self.assume_a, trans=self.trans, method=self.method)

    # -- what must come ------------------------------------------------------------------------------------------------------------

    def check(self) -> str:
        ldiv.clear_cache()
        A, values = matrix(self.problem.a, self.form)
        try:
            x, pullback = ldiv.vjp(self.solve, A, self.b)
            if self.iterates:
                return self._check_residual(x)
            if self.kept_to in ("singular", "indefinite"):
                raise Wrong(f"{self.kept_to}, and solved", f"x up to {np.abs(x).max():.1e}")
            factors = ldiv.factorized(A, assume_a=self.assume_a, method=self.method)
            self._check_solution(x)
            if self.kept_to == "regular":
                self._check_gradient(*pullback(self.c))
                self._check_determinant(factors, A)
        except (*REFUSED, ldiv.ConvergenceError) as error:
            return self._refused(error)
        except ldiv.LinAlgOverflowError as error:
            if self._gradient_overflows():
                return f"{self.kept_to}: a gradient beyond the range, refused"
            if self.kept_to != "singular":
                raise
            return self._refused(error)
        self._check_changed(factors, values, x)
        return f"{self.kept_to}: solved"

    def _refused(self, error: Exception) -> str:
        """Check that a refusal is right, or by a named engine that names one that solves."""
        if self.kept_to != "regular":
            if (
                self.kept_to == "indefinite"
                and not self.iterates
                and not isinstance(error, ldiv.NotPositiveDefiniteError)
            ):
                raise Wrong("indefinite, and not called so", error)
            return f"{self.kept_to}: refused"
        if self.iterates and (self.method in UNSURE or not self.problem.is_easy):
            return "regular: not converged"
        if self.method == "auto" or self.iterates:
            raise Wrong(f"regular, and refused ({type(error).__name__})", error)
        named = [name for name in engines() if f"'{name}'" in str(error) and name != self.method]
        for name in named:
            replace(self, method=name).check()
        if not named:
            raise Wrong(
                f"regular, and refused ({type(error).__name__}) without the name of an engine that solves",
                error,
            )
        return "regular: refused, with another's name"

    def _check_residual(self, x: Dense) -> str:
        """Check the promise of an iteration: |b - A x| <= eps^(2/3) |b|, up to the rounding of the
        residual itself.
        """
        a, b, x = (
            y.astype(np.result_type(y, np.longdouble))
            for y in (view(self.problem.a, self.trans), _block(self.b), _block(x))
        )
        rounding = self.problem.n * self.problem.eps * np.abs(a).max() * np.abs(x).max(0)
        r, limit = _norm(b - a @ x), 1.01 * self.problem.eps ** (2 / 3) * _norm(b) + rounding
        if not (r <= limit).all():
            raise Wrong("a residual larger than promised", f"{np.max(r / limit):.1e} times")
        return f"{self.kept_to}: solved"

    def _check_solution(self, x: Dense) -> None:
        system, (b, x) = System.of(self.problem, self.trans), map(_block, (self.b, x))
        if not np.isfinite(x).all():
            raise Wrong("not finite")
        # in the units of the verdict: those in which the condition is smaller may be others, and
        # make more of a residual
        residual = System.of(self.problem, self.trans, by_ruiz=True)
        if not (error := residual.backward_error(b, x)) <= self._backward:
            raise Wrong("backward error", f"{error:.1e}")
        if (
            self.kept_to == "regular"
            and not (error := system.forward_error(system.solution(b), x)) <= self._forward
        ):
            raise Wrong("forward error", f"{error:.1e}, condition {self.problem.condition:.1e}")

    def _gradient_overflows(self) -> bool:
        """Whether lam x^H overflows."""
        system = System.of(self.problem, self.trans)
        lam = system.adjoint.solution(_block(self.c)) * system.r
        y = system.solution(_block(self.b)) * system.c
        with np.errstate(over="ignore"):
            largest = np.abs(lam @ y.conj().T).max()
        return not largest < np.finfo(self.problem.a.dtype).max

    @property
    def _backward(self) -> float:
        return (EXACT + 10 * self.problem.n) * self.problem.eps

    @property
    def _forward(self) -> float:
        return min(0.5, self._backward * self.problem.condition)

    def _check_gradient(self, A_bar: Any, b_bar: Dense) -> None:
        """lam = op(A)^-H c;  b_bar = lam,  op(A)_bar = -lam x^H, in scaled unknowns."""
        system = System.of(self.problem, self.trans)
        lam, y = system.adjoint.solution(_block(self.c)), system.solution(_block(self.b))
        if not (error := system.adjoint.forward_error(lam, _block(b_bar))) <= self._forward:
            raise Wrong("cotangent of b", f"{error:.1e}, condition {self.problem.condition:.1e}")
        found, expected = (
            view(_entries(A_bar), self.trans),
            -(lam * system.r) @ (y * system.c).conj().T,
        )
        expected = view(_promised(view(expected, self.trans), self.assume_a), self.trans)
        expected = expected if np.iscomplexobj(self.problem.a) else expected.real
        at = (
            view(self.problem.a, self.trans) != 0
            if self.form != "dense"
            else np.ones(self.problem.a.shape, bool)
        )
        with np.errstate(over="ignore"):
            size = np.abs(lam).max(0) @ np.abs(y).max(0)
            defect = np.where(at, np.abs(found - expected), 0) / system.r / system.c.T
        if self.assume_a != "gen":  # whose mirrored entries have another scale
            defect = np.minimum(
                defect, np.where(at, np.abs(found - expected), 0) / system.c / system.r.T
            )
        if not (error := float(defect.max() / size)) <= 2 * self._forward:
            raise Wrong("cotangent of A", f"{error:.1e}, condition {self.problem.condition:.1e}")

    def _check_determinant(self, factors: ldiv.Factorized, A: Any) -> None:
        sign, expected = self.problem.logdet
        found, size = (
            factors.logabsdet(),
            sum(np.abs(np.log(s)).sum() for s in self.problem.scaled[1:]),
        )
        if (
            not abs(found - expected)
            <= self.problem.n * self._forward + 10 * self.problem.eps * size
        ):
            raise Wrong("log |det A|", f"{found}, not {expected}")
        if (
            self.form == "dense"
            and self.assume_a == "gen"
            and abs((found := ldiv.slogdet(A)[0]) - sign) > 0.1
        ):
            raise Wrong("sign of det A", f"{found}, not {sign}")

    def _check_changed(self, factors: ldiv.Factorized, values: Dense, x: Dense) -> None:
        """The values are changed in place: neither a factorization nor one that is remembered
        for the old values takes notice.
        """
        values *= 1.5
        for what, solve in (
            ("solve", lambda A: self.solve(A, self.b)),
            ("factorized", lambda A: factors.solve(self.b, trans=self.trans)),
        ):
            try:
                again = solve(matrix(self.problem.a, self.form)[0])
                if not np.array_equal(again, x):
                    self._check_solution(again)
            except (Wrong, *REFUSED) as error:
                raise Wrong(f"{what} after the values were changed in place", error) from None

    # -- how it is shown -----------------------------------------------------------------------------------------------------------

    def smaller(self) -> Iterator[Case]:
        """Yield cases with fewer rows and columns, or with one right-hand side, and the same
        verdict.
        """
        n = self.problem.n
        for size in sorted({n // 2, n // 4, 2, 1} - {0}, reverse=True):
            for start in range(0, n - (n == size), size):
                kept = np.delete(np.arange(n), slice(start, start + size))
                if len(kept):
                    yield from self._like(
                        self.problem.a[np.ix_(kept, kept)], self.b[kept], self.c[kept]
                    )
        if self.b.ndim == 2:
            yield from self._like(self.problem.a, self.b[:, 0], self.c[:, 0])

    def _like(self, a: Dense, b: Dense, c: Dense) -> Iterator[Case]:
        problem = Problem(self.problem.family, a, self.problem.deficient)
        if problem.assumptions.get(self.assume_a) == self.kept_to:
            yield replace(self, problem=problem, b=b, c=c).case

    def source(self) -> str:
        A, values = matrix(self.problem.a, self.form)
        form = "v"
        if self.form == "banded":
            form = "ldiv.Matrix(ldiv.structures.Banded({}, {}, {}), v)".format(
                *bandwidth(self.problem.a), self.problem.n
            )
        elif self.form != "dense":
            form = f"ldiv.coo_array((v, ({A.row.tolist()}, {A.col.tolist()})), shape={A.shape})"
        options = f"assume_a={self.assume_a!r}, method={self.method!r}"
        lines = (
            f"# {self.problem.family}, n = {self.problem.n}, {self.kept_to}, condition {self.problem.condition:.1e}",
            "import ldiv, numpy as np",
            f"make = lambda v: {form}",
            f"v = np.array({values.tolist()}, {values.dtype.name!r})",
            f"b = np.array({self.b.tolist()}, {self.b.dtype.name!r})",
            f"solve = lambda v: ldiv.solve(make(v), b, trans={self.trans!r}, {options})",
            "print(x := solve(v))",
            f"F, old = ldiv.factorized(make(v), {options}), v.copy()",
            f"v *= 1.5; print(solve(old) - x, F.solve(b, trans={self.trans!r}) - x)",
        )
        return "\n".join(lines)


def _norm(x: Dense) -> Dense:
    return np.sqrt((np.abs(x) ** 2).sum(0))


def _block(x: Dense) -> Dense:
    return x[:, None] if x.ndim == 1 else x


def _entries(A_bar: Any) -> Dense:
    """A cotangent as a dense array: at every position that of any of its entries, not their sum."""
    if isinstance(A_bar, ldiv.Matrix) and not isinstance(A_bar, ldiv.SparseArray):
        return np.asarray(A_bar.structure.todense(A_bar.params))
    if not isinstance(A_bar, ldiv.SparseArray):
        return np.asarray(A_bar)
    out = np.zeros(A_bar.shape, A_bar.data.dtype)
    out[A_bar.row, A_bar.col] = A_bar.values
    return out


def _promised(a: Dense, assume_a: str) -> Dense:
    """The part of the matrix that an assumption reads."""
    parts: dict[str, Callable[[Dense], Dense]] = {
        "gen": lambda a: a,
        "sym": lambda a: (a + a.T) / 2,
        "her": lambda a: (a + a.conj().T) / 2,
        "pos": lambda a: (a + a.conj().T) / 2,
        "lower triangular": np.tril,
        "upper triangular": np.triu,
        "diagonal": lambda a: np.diag(np.diag(a)),
    }
    return parts[assume_a](a)
