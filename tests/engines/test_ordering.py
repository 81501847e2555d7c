"""Orderings: always a permutation, as little fill as METIS and AMD find, and the same on every machine.

SuperLU without them: it orders by itself, and is as right.
"""

from os import environ
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from scipy.spatial import Delaunay

import ldiv
from ldiv.core.frameworks.pattern import Pattern
from ldiv.engines.libraries import native, ordering, work

compiled = pytest.mark.skipif(native.native is None, reason=native.why_not)
DATA = Path(environ.get("LDIV_TEST_DATA", "/nowhere"))
MOST_FILL = 1.10  # entries of L over those in the orders of METIS and of SuiteSparse's AMD


def grid(*sides: int) -> Any:
    g: Any = sp.csc_array((1, 1))
    for n in sides:
        g = sp.kronsum(g, sp.diags_array([1.0, 1.0, 1.0], offsets=[-1, 0, 1], shape=(n, n)))
    return g


def cube(side: int, unknowns: int) -> Any:
    """A mesh of hexahedra with several unknowns a node."""
    near: Any = sp.diags_array([1.0, 1.0, 1.0], offsets=[-1, 0, 1], shape=(side, side))
    return sp.kron(sp.kron(near, sp.kron(near, near)), np.ones((unknowns, unknowns)))


def mesh(n: int, d: int) -> Any:
    corners = Delaunay(np.random.default_rng(0).random((n, d))).simplices
    i, j = np.array([(a, b) for a in range(d + 1) for b in range(d + 1)]).T
    edges = corners[:, i].ravel(), corners[:, j].ravel()
    return sp.coo_array((np.ones(len(edges[0])), edges), shape=(n, n))


def circuit(n: int) -> Any:
    """Wires on a chip, some that are long, and rails that meet many."""
    rng, i, side = np.random.default_rng(0), np.arange(1, n), int(n**0.5)
    rows = [i, rng.integers(0, n, n // 100), rng.integers(0, 5, n // 20), np.arange(n - side)]
    columns = [i - 1, rng.integers(0, n, n // 100), rng.integers(0, n, n // 20), rows[3] + side]
    edges = np.concatenate(rows), np.concatenate(columns)
    return sp.coo_array((np.ones(len(edges[0])), edges), shape=(n, n)) + sp.eye_array(n)


GRAPHS = {
    "empty": (0, [], []),
    "one vertex": (1, [0], [0]),
    "no edges": (900, [], []),
    "loops": (900, range(900), range(900)),
    "complete": (450, *np.divmod(np.arange(450**2), 450)),
    "star": (3000, [0] * 2999, range(1, 3000)),
    "ten stars": (3000, np.arange(3000) // 300 * 300, range(3000)),
    "path": (3000, range(2999), range(1, 3000)),
    "pairs": (3000, range(0, 3000, 2), range(1, 3000, 2)),
    "two cycles": (2000, range(2000), [*range(1, 1000), 0, *range(1001, 2000), 1000]),
    "duplicated": (1000, [*range(999)] * 3, [*range(1, 1000)] * 3),
    "unsymmetric": (1000, *np.random.default_rng(0).integers(0, 1000, (2, 1500))),
    "dense rows": (2000, [*range(1999), *[7] * 2000, *[1999] * 2000], [*range(1, 2000), *range(2000), *range(2000)]),
    "complete bipartite": (900, np.repeat(range(450), 450), np.tile(range(450, 900), 450)),
}  # fmt: skip


@compiled
@pytest.mark.parametrize("name", GRAPHS)
def test_a_permutation_of_every_graph(name: str) -> None:
    n, rows, columns = GRAPHS[name]
    pattern = Pattern(np.array([*rows], int), np.array([*columns], int), (n, n))
    for order in (ordering.of_sum(pattern), ordering.of_sum(pattern, 0.7)):
        assert order is not None and np.array_equal(np.sort(order), np.arange(n))
    if name in ("star", "path", "pairs", "loops", "no edges", "ten stars"):  # trees have no fill
        off = np.array([*rows], int) != np.array([*columns], int)
        assert work.work(pattern).entries == n + off.sum()


def pattern_of(a: Any) -> Pattern:
    a = sp.coo_array(a)
    return Pattern(*a.coords, a.shape)


PROBLEMS = {
    "2D grid": lambda: grid(120, 120),
    "3D grid": lambda: grid(18, 18, 18),
    "2D mesh": lambda: mesh(10_000, 2),
    "3D mesh": lambda: mesh(3000, 3),
    "three unknowns a node": lambda: sp.kron(grid(40, 40), np.ones((3, 3))),
    "cube of hexahedra": lambda: cube(16, 3),
    "ten unknowns a node": lambda: cube(10, 10),
    "circuit": lambda: circuit(10_000),
    # by minimum degree alone
    "small grid": lambda: grid(9, 9, 9),
    "small mesh": lambda: mesh(700, 3),
    "small circuit": lambda: circuit(700),
}
FILES = {path.stem: path for path in sorted(DATA.glob("*.mtx"))}


def by_metis(graph: Any) -> Any:
    pymetis = pytest.importorskip("pymetis")
    order, _ = pymetis.nested_dissection(pymetis.CSRAdjacency(graph.indptr, graph.indices))
    return np.asarray(order)


def by_amd(graph: Any) -> Any:
    """SuiteSparse's, which comes with CVXOPT."""
    cvxopt, amd = (pytest.importorskip(name) for name in ("cvxopt", "cvxopt.amd"))
    lower = sp.coo_array(sp.tril(graph + sp.eye_array(graph.shape[0])))
    rows, columns = (i.tolist() for i in lower.coords)
    return np.array(amd.order(cvxopt.spmatrix(1.0, rows, columns, lower.shape))).ravel()


@compiled
@pytest.mark.parametrize("theirs", [by_metis, by_amd])
@pytest.mark.parametrize("name", [*PROBLEMS, *FILES])
def test_fill_is_that_of_others(name: str, theirs: Any) -> None:
    a = sp.csc_array(PROBLEMS[name]() if name in PROBLEMS else scipy.io.mmread(FILES[name]))
    if a.shape[0] != a.shape[1]:
        pytest.skip("a rectangular matrix")
    pattern = pattern_of(abs(a) + abs(a).T)
    graph = sp.csr_array(pattern.csc(np.ones(pattern.slots)))
    graph.setdiag(0)
    graph.eliminate_zeros()
    found = work.counted(pattern, theirs(graph)).entries
    assert work.work(pattern).entries <= MOST_FILL * found


@compiled
def test_the_order_depends_on_the_pattern_alone() -> None:
    pattern = pattern_of(mesh(6000, 2))
    with ldiv.set_num_threads(1):
        alone = ordering.of_sum(pattern)
    with ldiv.set_num_threads(3):
        assert np.array_equal(alone, ordering.of_sum(pattern))


@compiled
def test_what_is_no_pattern_is_refused() -> None:
    assert native.native is not None
    order = np.empty(2, np.int64)
    for starts, rows, most in (
        ([0, 1, 1], [2], 0.6),
        ([0, 1, 1], [-1], 0.6),
        ([0, 2, 1], [0], 0.6),
        ([0, 2, 2], [0, 0], 0.6),
        ([0, 1], [0], 0.6),
        ([0, 1, 1], [0], 0.4),
    ):
        with pytest.raises(ValueError, match="expected"):
            native.native.ordering(np.array(starts), np.array(rows), most, order, 1)


@pytest.mark.parametrize("assume_a", ["gen", "sym", "pos"])
@pytest.mark.parametrize("full", [True, False], ids=["diagonal", "no diagonal"])
def test_without_an_ordering(monkeypatch: pytest.MonkeyPatch, assume_a: str, full: bool) -> None:
    monkeypatch.setattr(ordering, "_ordered", lambda *_: None)
    a: Any = sp.diags_array([-1.0, 4.0, -1.0], offsets=[-1, 0, 1], shape=(37, 37))
    if not full:
        a = (
            sp.csc_array(sp.csr_array(a)[::-1])
            if assume_a == "gen"
            else sp.block_diag([a, [[0, 1], [1, 0]]])
        )
    if assume_a == "pos" and not full:
        pytest.skip("a definite matrix has a full diagonal")
    a = sp.csc_array(a)
    a.eliminate_zeros()
    pattern = Pattern(*a.tocoo().coords, a.shape)
    assert ordering.of_sum(pattern) is None and ordering.of_columns(pattern) is None
    x = np.arange(1.0, 1 + a.shape[0])
    F = ldiv.factorized(ldiv.asarray(a), assume_a=assume_a, method="superlu")
    for trans, op in (("N", a), ("T", a.T)):
        np.testing.assert_allclose(F.solve(op @ x, trans=trans), x, rtol=1e-12)
    expected = np.linalg.slogdet(a.toarray())[1]
    np.testing.assert_allclose(F.logabsdet(), expected, rtol=1e-12)


def test_without_an_ordering_an_indefinite_matrix_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ordering, "_ordered", lambda *_: None)
    a = sp.diags_array([-1.0, 1.5, -1.0], offsets=[-1, 0, 1], shape=(41, 41))
    with pytest.raises(ldiv.NotPositiveDefiniteError):
        ldiv.factorized(ldiv.asarray(a), assume_a="pos", method="superlu")
