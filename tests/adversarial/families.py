"""Families of hard matrices: each draws one of size about n as a dense array of doubles, easy to
write down, hard to factor.

A family says nothing of whether its matrix is singular, but for those in SINGULAR, which are so
before they are rounded.
"""

from __future__ import annotations

import os
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.linalg as sl

Rng = np.random.Generator
Dense = np.ndarray[Any, Any]
DATA = Path(os.environ.get("LDIV_TEST_DATA", Path(__file__).parents[3] / "shared" / "data"))


# -- differential equations ---------------------------------------------------


def shifted_laplacian(rng: Rng, n: int) -> Dense:
    """A Laplacian minus a whole number: pivots cancel exactly."""
    return _minus(laplacian(rng, n), rng.integers(0, 9))


def helmholtz(rng: Rng, n: int) -> Dense:
    return _minus(laplacian(rng, n), rng.choice([0.01, 0.1, 0.5, 1.0, 1.5, 2.0, 3.5]))


def damped_helmholtz(rng: Rng, n: int) -> Dense:
    """Complex symmetric: absorbing at one end, or everywhere."""
    a = _minus(laplacian(rng, n), rng.choice([0.1, 0.5, 1.0, 2.0, 3.0])).astype(complex)
    damped = rng.random(len(a)) < rng.choice([0.1, 1.0])
    return a - 1j * rng.choice([1e-3, 0.1, 1.0]) * np.diag(damped)


def convection(rng: Rng, n: int) -> Dense:
    """Central differences of -u'' + w u': nearly skew for a large w."""
    w = rng.choice([0.1, 1.0, 10.0, 1000.0])
    return _bands(n, -1 - w, 2.0, -1 + w)


def laplacian(rng: Rng, n: int) -> Dense:
    """The Laplacian on a grid of one, two or three dimensions, with a Dirichlet boundary."""
    sides = grid(rng, n)
    return _kron_sum([_bands(m, -1.0, 2.0, -1.0) for m in sides])


def elasticity(rng: Rng, n: int) -> Dense:
    """Springs of very different stiffness, one end held."""
    d = np.eye(n) - np.eye(n, k=-1)
    return d.T @ np.diag(10.0 ** rng.integers(-3, 4, n)) @ d


# -- optimization, circuits, graphs -------------------------------------------


def saddle_point(rng: Rng, n: int) -> Dense:
    """[[H, B^T], [B, -C]], C = 0 or small, H perhaps 0 in part: an interior point late, a Stokes
    problem, equality constraints.
    """
    m = int(rng.integers(1, max(2, n // 2)))
    b = _sparse(rng, (m, n), 0.3) + np.eye(m, n)
    h = np.diag(rng.choice([0.0, 1.0, 1e-3, 1e3], n, p=[0.2, 0.4, 0.2, 0.2]))
    c = rng.choice([0.0, 1e-8, 1.0]) * np.eye(m)
    return np.block([[h, b.T], [b, -c]])


def zero_diagonal(rng: Rng, n: int) -> Dense:
    """Pairs [[0, 1], [1, 0]], weakly coupled or not, in any order: no pivot is on the diagonal."""
    pair = np.array([[0.0, 1.0], [rng.choice([1.0, -1.0, 2.0]), 0.0]])
    a = np.kron(np.eye(max(1, n // 2)), pair)
    coupling = _sparse(rng, a.shape, 0.1) * rng.choice([0.0, 0.1, 1.0])
    coupling = coupling + coupling.T
    np.fill_diagonal(coupling, 0)
    return _permuted(rng, a + coupling)


def adjacency(rng: Rng, n: int) -> Dense:
    """The adjacency matrix of a grid or of a random graph, plus a whole multiple of I."""
    if rng.random() < 0.6:
        a = _kron_sum([_bands(m, 1.0, 0.0, 1.0) for m in grid(rng, n)])
    else:
        a = np.triu(rng.random((n, n)) < 3 / n, 1).astype(float)
        a = a + a.T
    return _minus(a, rng.choice([0, 0, -1, 1, 2]))


def circuit(rng: Rng, n: int) -> Dense:
    """Modified nodal analysis: conductances over nine decades, a ground, and voltage sources
    with zero diagonals.
    """
    g, nodes = np.zeros((n, n)), np.arange(n)
    for i, j in [*pairwise(nodes), *rng.integers(0, n, (n, 2))]:
        conductance = 10.0 ** rng.integers(-6, 4)
        g[np.ix_([i, j], [i, j])] += (
            conductance * np.array([[1, -1], [-1, 1]]) if i != j else conductance
        )
    g[0, 0] += 1.0
    m = int(rng.integers(0, max(1, n // 4) + 1))
    e = np.zeros((n, m))
    e[rng.permutation(n)[:m], np.arange(m)] = 1
    return np.block([[g, e], [e.T, np.zeros((m, m))]])


def arrow(rng: Rng, n: int) -> Dense:
    """A diagonal, some of it zero, with its first or last row and column full."""
    a = np.diag(rng.choice([1.0, -1.0, 2.0, 1e-3, 0.0], n, p=[0.3, 0.3, 0.25, 0.1, 0.05]))
    at = rng.choice([0, n - 1])
    a[at, :] = a[:, at] = 1.0
    return a


# -- entries and spectra ------------------------------------------------------


def signs(rng: Rng, n: int) -> Dense:
    """Entries +-1, full or sparse, symmetric or not."""
    a = rng.choice([-1.0, 1.0], (n, n)) * (rng.random((n, n)) < rng.choice([1.0, 0.5, 4 / n]))
    return a if rng.random() < 0.5 else np.triu(a) + np.triu(a, 1).T


def graded(rng: Rng, n: int) -> Dense:
    """Singular values from 1 down to anything: full, or graded along the diagonal."""
    low = rng.uniform(0, 14)
    s = 10.0 ** -np.linspace(0, low, n)
    if rng.random() < 0.3:
        return np.sqrt(s)[:, None] * (np.eye(n) + 0.3 * _sparse(rng, (n, n), 0.2)) * np.sqrt(s)
    q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    s = s * rng.choice([1.0, rng.choice([-1.0, 1.0])], n)
    return (q * s) @ (q.T if rng.random() < 0.5 else np.linalg.qr(rng.standard_normal((n, n)))[0])


def random_sparse(rng: Rng, n: int) -> Dense:
    a = _sparse(rng, (n, n), rng.choice([2 / n, 4 / n, 0.2]))
    return a + np.diag(rng.choice([0.0, 1.0, 4.0]) * rng.standard_normal(n))


def tridiagonal(rng: Rng, n: int) -> Dense:
    a = _bands(n, 1.0, rng.choice([0.0, 1.0, 1e-10, 2.0]), rng.choice([1.0, -1.0, 0.5]))
    return a * rng.choice([1.0, -1.0, 2.0], (n, n)) if rng.random() < 0.5 else a


def permutation(rng: Rng, n: int) -> Dense:
    """Perfectly conditioned after scaling, and almost surely without a diagonal."""
    return np.diag(10.0 ** rng.integers(-4, 5, n))[rng.permutation(n)]


def skew(rng: Rng, n: int) -> Dense:
    """A - A^T plus nothing, or I: singular for an odd n, without the I."""
    a = np.triu(_sparse(rng, (n, n), 0.3), 1) + np.eye(n, k=1)
    return _minus(a - a.T, rng.choice([0, 0, 1]))


def tiny(rng: Rng, n: int) -> Dense:
    n = int(rng.integers(1, 4))
    return rng.choice([0.0, 1.0, -1.0, 2.0, 1e-9, 1e9, 0.1], (n, n))


def hilbert(rng: Rng, n: int) -> Dense:
    return sl.hilbert(int(rng.integers(1, 10)))


def growth(rng: Rng, n: int) -> Dense:
    """Partial pivoting, by rows or by columns, lets entries grow to 2^(n-1)."""
    a = np.eye(n) - np.tril(np.ones((n, n)), -1)
    a[:, -1] = 1
    return a if n % 2 else a.T


def definite(rng: Rng, n: int) -> Dense:
    """B^T B + s I, sparse."""
    b = _sparse(rng, (n, n), 3 / n)
    return b.T @ b + rng.choice([1e-6, 1e-2, 1.0]) * np.eye(n)


def nearly_definite(rng: Rng, n: int) -> Dense:
    """One negative eigenvalue, or none: a definite matrix with one of its diagonal entries
    negative or small.
    """
    a = _minus(laplacian(rng, n), rng.choice([0.0, -0.3]))
    at = rng.integers(len(a))
    a[at, at] *= rng.choice([-1.0, -0.1, 0.5, 1.0])
    return a


def triangular(rng: Rng, n: int) -> Dense:
    """Lower or upper, in the mean well conditioned, some of the diagonal small."""
    a = np.tril(_sparse(rng, (n, n), 2 / n), -1) + np.diag(
        rng.choice([1.0, -2.0, 1e-3], n, p=[0.6, 0.35, 0.05])
    )
    return a if rng.random() < 0.5 else a.T


def dominant(rng: Rng, n: int) -> Dense:
    """Conditions of a few: engines that iterate have to solve it, too."""
    a = _sparse(rng, (n, n), 3 / n)
    a = a + a.T if rng.random() < 0.5 else a
    return a + np.diag(1 + np.abs(a).sum(1))


@cache
def _file(name: str) -> Dense:
    return scipy.io.mmread(DATA / f"{name}.mtx", spmatrix=False).toarray()


def real(rng: Rng, n: int) -> Dense:
    """A matrix of the SuiteSparse collection, or some of its rows and the same columns; one of
    ours where there are no files.
    """
    name = rng.choice(["bcsstk01", "494_bus", "west0479", "tumorAntiAngiogenesis_2"])
    if not (DATA / f"{name}.mtx").exists():
        return circuit(rng, n)
    a = _file(str(name))
    if rng.random() < 0.05:
        return a
    start = int(rng.integers(0, len(a)))
    near = np.sort(
        np.argsort(-(np.abs(a[start]) + np.abs(a[:, start])), kind="stable")[: max(n, 2)]
    )
    return a[np.ix_(near, near)]


# -- singular ones ------------------------------------------------------------


def neumann(rng: Rng, n: int) -> Dense:
    """A free Laplacian, with weights, which round, or without: constants are its kernel."""
    incidence = _incidence(grid(rng, n))
    weights = np.ones(len(incidence)) if rng.random() < 0.3 else rng.random(len(incidence)) + 0.1
    return incidence.T @ (weights[:, None] * incidence)


def floating(rng: Rng, n: int) -> Dense:
    """A subdomain that is held, and one that is not."""
    return sl.block_diag(laplacian(rng, n // 2 + 1), neumann(rng, n // 2 + 2))


def repeated(rng: Rng, n: int) -> Dense:
    """A row that is a multiple of another, or the sum of two others."""
    a = _sparse(rng, (n + 1, n + 1), 0.3) + 2 * np.eye(n + 1)
    i, j, k = rng.permutation(n + 1)[[0, 1, -1]]
    a[i] = a[j] * rng.choice([1.0, 0.1, -3.0]) + (a[k] * rng.choice([0.0, 0.7]) if k != i else 0)
    return a if rng.random() < 0.5 else a.T


def deficient_gram(rng: Rng, n: int) -> Dense:
    b = rng.standard_normal((n + 1, n)) if rng.random() < 0.5 else _sparse(rng, (n + 1, n), 0.5)
    return b @ b.T


def markov(rng: Rng, n: int) -> Dense:
    """I - P for a stochastic P."""
    p = (
        rng.random((n + 1, n + 1)) * (rng.random((n + 1, n + 1)) < 0.5)
        + np.eye(n + 1, k=1)
        + np.eye(n + 1, k=-n)
    )
    return np.eye(n + 1) - p / p.sum(1, keepdims=True)


def dependent_constraints(rng: Rng, n: int) -> Dense:
    """A saddle point with one constraint given twice."""
    b = _sparse(rng, (2, n + 1), 0.5) + 1
    b[1] = 0.3 * b[0]
    return np.block([[np.diag(rng.random(n + 1) + 0.5), b.T], [b, np.zeros((2, 2))]])


def empty(rng: Rng, n: int) -> Dense:
    """An empty row or column, or nothing but zeros."""
    a = np.eye(n) * 2 + _sparse(rng, (n, n), 0.3)
    a[rng.integers(n)] = 0
    return rng.choice([1.0, 1.0, 1.0, 0.0]) * (a if rng.random() < 0.5 else a.T)


def no_transversal(rng: Rng, n: int) -> Dense:
    """Three rows with entries in two columns only."""
    a = np.eye(n + 2) + _sparse(rng, (n + 2, n + 2), 0.3)
    rows, cols = rng.permutation(n + 2)[:3], rng.permutation(n + 2)[:2]
    a[rows] = 0
    a[np.ix_(rows, cols)] = rng.standard_normal((3, 2))
    return a


REGULAR = [
    shifted_laplacian, shifted_laplacian, helmholtz, damped_helmholtz, convection, laplacian, elasticity, saddle_point, saddle_point,
    zero_diagonal, zero_diagonal, adjacency, adjacency, circuit, arrow, signs, signs, graded, random_sparse, tridiagonal, permutation, skew,
    tiny, hilbert, growth, definite, nearly_definite, triangular, dominant, real,
]  # fmt: skip
SINGULAR = [
    neumann,
    floating,
    repeated,
    deficient_gram,
    markov,
    dependent_constraints,
    empty,
    no_transversal,
]


# -- what they are made of ----------------------------------------------------


def grid(rng: Rng, n: int) -> list[int]:
    """The sides of a grid of about n points."""
    d = int(rng.integers(1, 4))
    sides = [max(1, round(n ** (1 / d))) + int(rng.integers(0, 2)) for _ in range(d)]
    return [max(2, n)] if d == 1 else sides


def _minus(a: Dense, shift: Any) -> Dense:
    return a - shift * np.eye(len(a))


def _bands(n: int, below: float, on: float, above: float) -> Dense:
    return below * np.eye(n, k=-1) + on * np.eye(n) + above * np.eye(n, k=1)


def _kron_sum(parts: list[Dense]) -> Dense:
    total = parts[0]
    for part in parts[1:]:
        total = np.kron(total, np.eye(len(part))) + np.kron(np.eye(len(total)), part)
    return total


def _incidence(sides: list[int]) -> Dense:
    """The edges of a grid by its points."""
    number = np.arange(np.prod(sides)).reshape(sides)
    pairs = [
        (np.delete(number, 0, axis).ravel(), np.delete(number, -1, axis).ravel())
        for axis in range(len(sides))
    ]
    i, j = map(np.concatenate, zip(*pairs, strict=True))
    return np.eye(number.size)[i] - np.eye(number.size)[j]


def _sparse(rng: Rng, shape: tuple[int, ...], density: float) -> Dense:
    entries = (
        rng.integers(-3, 4, shape).astype(float)
        if rng.random() < 0.3
        else rng.standard_normal(shape)
    )
    return entries * (rng.random(shape) < density)


def _permuted(rng: Rng, a: Dense) -> Dense:
    order = rng.permutation(len(a))
    return a[np.ix_(order, order)]
