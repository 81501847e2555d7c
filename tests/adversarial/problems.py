"""A hard linear system, and by arithmetic of its own what a solver must make of it: with R and C
powers of two that scale A,

    regular    cond_2(R A C) <= 1 / (100 n eps), eps of the precision of A: must be solved
    singular   no transversal, or rank deficient in whole numbers, or before rounding: must be refused
    between    neither: what is answered must have a small residual

Nothing of ldiv is used: solutions come from a QR factorization, refined with residuals in long
double.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from scipy.sparse.csgraph import structural_rank

from adversarial.families import REGULAR, SINGULAR, Dense, Rng

DTYPES = ("float32", "float64", "complex64", "complex128")
PRIME = 998244353  # 1 modulo 4, so that -1 has a square root, which stands for i
ROOT = pow(3, (PRIME - 1) // 4, PRIME)


@dataclass(frozen=True, eq=False)
class Problem:
    """A as a dense array of its dtype; `deficient`: it was singular before it was rounded."""

    family: str
    a: Dense
    deficient: bool = False

    @property
    def n(self) -> int:
        return len(self.a)

    @property
    def eps(self) -> float:
        return float(np.finfo(self.a.dtype).eps)

    @cached_property
    def by_ruiz(self) -> tuple[Dense, Dense, Dense]:
        """(R A C, r, c) in double precision, in the units in which residuals are looked at."""
        return equilibrated(self.a, at_once=True)

    @cached_property
    def scaled(self) -> tuple[Dense, Dense, Dense]:
        """(R A C, r, c) with the smaller condition of two pairs of units: where rows and columns are
        alike in one in which A is well-posed, it must be solved, and to that accuracy.
        """
        return min((self.by_ruiz, equilibrated(self.a)), key=lambda units: _condition(units[0]))

    @cached_property
    def condition(self) -> float:
        return _condition(self.scaled[0])

    @cached_property
    def verdict(self) -> str:
        if structural_rank(sp.csr_array(self.a != 0)) < self.n or is_singular_integer(
            self.scaled[0]
        ):
            return "singular"
        if self.condition <= 1 / (100 * self.n * self.eps):
            return "regular"
        return "singular" if self.deficient and self.condition >= 1 / self.eps else "between"

    @cached_property
    def assumptions(self) -> dict[str, str]:
        """The possible assumptions and their outcomes: `indefinite` may not be taken for definite."""
        found = {"gen": self.verdict}
        if np.array_equal(self.a, self.a.T):
            found["sym"] = self.verdict
        if np.array_equal(self.a, self.a.conj().T):
            found["her"] = self.verdict
            if (definite := self._definiteness()) != "between":
                found["pos"] = definite
        for name, other in (("lower", np.triu(self.a, 1)), ("upper", np.tril(self.a, -1))):
            if not other.any():
                found[f"{name} triangular"] = self.verdict
        if {"lower triangular", "upper triangular"} <= found.keys():
            found["diagonal"] = self.verdict
        return found

    def _definiteness(self) -> str:
        """The definiteness, by the eigenvalues of A with its diagonal scaled to 1."""
        if self.verdict != "regular":
            return self.verdict
        d = np.diag(self.a).real.astype(float)
        scale = 1 / np.sqrt(np.where(d > 0, d, 1))
        sizes = np.linalg.eigvalsh(scale[:, None] * self.a * scale)
        least = sizes[0] / np.abs(sizes).max()
        if d.min() < 0 or least < -0.01:
            return "indefinite"
        return "regular" if least >= 100 * self.n * self.eps else "between"

    @property
    def is_easy(self) -> bool:
        """Do engines that iterate have to solve it? All of it may be very small or large."""
        return (
            self.family.endswith("dominant")
            and max(np.ptp(np.log2(s)) for s in self.scaled[1:]) < 4
        )

    @cached_property
    def logdet(self) -> tuple[Any, float]:
        """(the sign of det A, log |det A|)."""
        scaled, r, c = self.scaled
        diagonal = np.diag(np.linalg.qr(scaled)[1])
        sign = np.linalg.slogdet(scaled)[0]
        return sign, float(np.log(np.abs(diagonal)).sum() - np.log(r).sum() - np.log(c).sum())


def draw(rng: Rng, largest: int = 100) -> Problem:
    """Any family, size, dtype, scaling and symmetry."""
    deficient = bool(rng.random() < 0.2)
    family: Callable[[Rng, int], Dense] = rng.choice(SINGULAR if deficient else REGULAR)  # type: ignore[arg-type]
    a = family(rng, int(rng.integers(2, rng.choice([6, 15, 40, largest]))))
    dtype = str(rng.choice(DTYPES))
    name = family.__name__
    if np.iscomplexobj(a) and dtype[0] == "f":
        dtype = "complex64" if dtype == "float32" else "complex128"
    if dtype[0] == "c":
        a = _complex(rng, a)
    if rng.random() < 0.2:
        name, a = "scaled " + name, _badly_scaled(rng, a, dtype)
    if rng.random() < 0.2:
        rows = rng.permutation(len(a))
        a = a[rows][:, rows if rng.random() < 0.5 else rng.permutation(len(a))]
    with np.errstate(under="ignore"):
        return Problem(name, np.ascontiguousarray(a.astype(dtype)), deficient)


def _complex(rng: Rng, a: Dense) -> Dense:
    """D A D^H is Hermitian where A is, D A D symmetric; or as it is."""
    d = (
        rng.choice([1, 1j, -1, -1j], len(a))
        if rng.random() < 0.5
        else np.exp(2j * np.pi * rng.random(len(a)))
    )
    way = rng.integers(3)
    if way == 0:
        return a.astype(complex)
    scaled = d[:, None] * a * (d.conj() if way == 1 else d)
    other = scaled.conj().T if way == 1 else scaled.T
    symmetric = np.allclose(scaled, other, rtol=1e-14, atol=0)
    return np.asarray((scaled + other) / 2 if symmetric else scaled)


def _badly_scaled(rng: Rng, a: Dense, dtype: str) -> Dense:
    """Rows and columns by powers of two up to 2^+-40, alike or not; or all by 1e+-200, in single
    precision by 1e+-25.
    """
    if rng.random() < 0.3:
        return a * 10.0 ** (
            rng.choice([1, -1]) * (200 if dtype in ("float64", "complex128") else 25)
        )
    r, c = np.exp2(rng.integers(-40, 41, (2, len(a))))
    way = rng.integers(4)
    return np.asarray(
        r[:, None] * a * r
        if way == 0
        else r[:, None] * a * (c if way == 1 else 1)
        if way < 3
        else a * c
    )


def _condition(m: Dense) -> float:
    sigma = np.linalg.svd(m, compute_uv=False)
    return float(sigma[0] / sigma[-1]) if sigma[-1] > 0 else np.inf


def equilibrated(a: Dense, at_once: bool = False) -> tuple[Dense, Dense, Dense]:
    """(R A C, r, c): the largest entry of every row and column, zero ones excepted, near 1.

    Rows and columns in turn, or at once (Ruiz), which keeps symmetry.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.log2(np.abs(a.astype(np.result_type(a, np.float64))))
        u, v = np.zeros(len(a)), np.zeros(len(a))
        for _ in range(20):
            before = u
            u = u - _finite(np.max(size + u[:, None] + v, axis=1)) / 2
            seen = before if at_once else u
            v = v - _finite(np.max(size + seen[:, None] + v, axis=0)) / 2
        u = u - _finite(np.max(size + u[:, None] + v, axis=1))
    r, c = np.exp2(np.round(u)), np.exp2(np.round(v))
    return (r[:, None] * a) * c, r, c


def _finite(x: Dense) -> Dense:
    return np.where(np.isfinite(x), x, 0)


def is_singular_integer(a: Dense) -> bool:
    """Whether A, up to a power of two, has (Gaussian) integers, and is rank deficient modulo a
    prime.
    """
    a = a * 2.0**12
    parts = np.stack([a.real, a.imag])
    if len(a) > 200 or (parts != np.round(parts)).any() or np.abs(parts).max() > 2**40:
        return False
    m = ((parts[0].astype(np.int64) % PRIME) + ROOT * (parts[1].astype(np.int64) % PRIME)) % PRIME
    for j in range(len(m)):
        pivots = np.flatnonzero(m[j:, j])
        if len(pivots) == 0:
            return True
        m[[j, j + pivots[0]]] = m[[j + pivots[0], j]]
        factors = m[j + 1 :, j] * pow(int(m[j, j]), -1, PRIME) % PRIME
        m[j + 1 :] = (m[j + 1 :] - factors[:, None] * m[j]) % PRIME
    return False


def view(a: Dense, trans: str) -> Dense:
    return {"N": a, "T": a.T, "H": a.conj().T}[trans]


@dataclass(frozen=True, eq=False)
class System:
    """op(A) x = b in scaled unknowns, M y = d:  M = R op(A) C, x = C y, d = R b, with R and C as
    columns.
    """

    m: Dense
    r: Dense
    c: Dense

    @staticmethod
    def of(problem: Problem, trans: str, by_ruiz: bool = False) -> System:
        scaled, r, c = problem.by_ruiz if by_ruiz else problem.scaled
        r, c = r[:, None], c[:, None]
        return System(view(scaled, trans), *((r, c) if trans == "N" else (c, r)))

    @property
    def adjoint(self) -> System:
        return System(self.m.conj().T, self.c, self.r)

    def solution(self, b: Dense) -> Dense:
        """y, to all digits of double precision."""
        d, (q, upper) = _wide(self.r * b), np.linalg.qr(self.m)
        y, m = np.zeros_like(d, dtype=np.result_type(d, self.m)), _wide(self.m)
        for _ in range(4):
            residual = d - m @ y
            y = y + sl.solve_triangular(
                upper,
                q.conj().T
                @ residual.astype(np.complex128 if np.iscomplexobj(residual) else np.float64),
            )
        return y

    def backward_error(self, b: Dense, x: Dense) -> float:
        """|d - M y| / (|M| |y| + |d|) in the largest norm, the worst of the columns."""
        y, d = _wide(x) / self.c, self.r * _wide(b)
        size = np.abs(self.m).sum(1).max() * np.abs(y).max(0) + np.abs(d).max(0)
        return float((np.abs(d - self.m @ y).max(0) / np.where(size > 0, size, 1)).max(initial=0))

    def forward_error(self, y: Dense, x: Dense) -> float:
        """|x / C - y| / |y| in the largest norm, the worst of the columns."""
        size = np.abs(y).max(0)
        return float((np.abs(x / self.c - y).max(0) / np.where(size > 0, size, 1)).max(initial=0))


def _wide(x: Dense) -> Dense:
    """Convert to long double."""
    return x.astype(np.result_type(x, np.longdouble))
