"""One V-cycle for blocks of columns: pyamg's own, column by column."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ldiv.engines.preconditioners import amg

pyamg = pytest.importorskip("pyamg")


def grid(*sides: int) -> Any:
    lines = [sp.diags_array([2.0, -1.0, -1.0], offsets=[0, 1, -1], shape=(n, n)) for n in sides]
    total = lines[0]
    for line in lines[1:]:
        total = sp.kron(total, sp.eye_array(line.shape[0])) + sp.kron(
            sp.eye_array(total.shape[0]), line
        )
    return sp.csc_array(total)


def pyamg_cycle(a: Any, b: Any, modes: Any, options: dict[str, Any]) -> Any:
    with amg._same_numbers():
        made = pyamg.smoothed_aggregation_solver(sp.csr_array(a), B=modes, **options)
    solve = lambda column: made.solve(column, maxiter=1, cycle="V", tol=1e-12)
    return np.stack([solve(column) for column in b.T], axis=-1)


MODES = np.kron(np.ones((300, 1)), np.eye(2))
COUPLED = sp.csc_array(sp.kron(grid(300), np.array([[2.0, 1.0], [1.0, 2.0]])))
COMPLEX = sp.csc_array(grid(30, 31) * (1 + 0j) + 0.1j * sp.eye_array(930))
CASES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "2D": (grid(40, 41), None, {}),
    "3D": (grid(11, 12, 13), None, {}),
    "blocks of two": (COUPLED, MODES, {}),
    "complex": (COMPLEX, None, {}),
    "one level": (grid(5), None, {}),
    "a smoother": (grid(40, 41), None, {"presmoother": "jacobi", "postsmoother": "jacobi"}),
    "no smoother": (grid(40, 41), None, {"presmoother": None, "postsmoother": None}),
    "schwarz": (grid(20, 21), None, {"presmoother": "schwarz", "postsmoother": "schwarz"}),
    "splu": (grid(40, 41), None, {"coarse_solver": "splu"}),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_that_of_pyamg(name: str) -> None:
    a, modes, options = CASES[name]
    n, rng = a.shape[0], np.random.default_rng(0)
    cycle = amg.Cycle(a, False, None if modes is None else amg.Modes(modes), options)
    assert len(cycle._levels) > 1 or name == "one level"
    for k in (1, 4):
        b = rng.standard_normal((n, k)).astype(a.dtype)
        before, expected = b.copy(), pyamg_cycle(a, b, modes, options)
        for given in (b, np.asfortranarray(b)):
            assert np.abs(cycle(given) - expected).max() <= 1e-12 * np.abs(expected).max()
        assert np.array_equal(b, before)
    assert not cycle(np.zeros((n, 2), a.dtype)).any()
    assert cycle(np.zeros((n, 0), a.dtype)).shape == (n, 0)


def test_real_matrices_take_complex_blocks() -> None:
    a = grid(20, 21)
    x, y = np.random.default_rng(0).standard_normal((2, 420, 3))
    cycle = amg.Cycle(a, False, None, {})
    assert np.allclose(cycle(x + 1j * y), cycle(x) + 1j * cycle(y), rtol=1e-14)
    assert cycle(x.astype(np.float32)).dtype == np.float64


@pytest.mark.parametrize("name", ["2D", "blocks of two", "complex"])
def test_its_bytes_are_those_of_all_arrays_that_it_keeps(name: str) -> None:
    a, modes, options = CASES[name]
    cycle = amg.Cycle(a, False, None if modes is None else amg.Modes(modes), options)
    cycle(np.ones((a.shape[0], 1)))
    seen, todo, total = set(), [cycle._levels, cycle._coarsest], 0
    while todo:
        x = todo.pop()
        if id(x) in seen or isinstance(x, type | type(np)):
            continue
        seen.add(id(x))
        if isinstance(x, np.ndarray):
            total += x.nbytes if x.base is None else 0
            todo.append(x.base)
        is_function = callable(x) and hasattr(x, "__globals__")
        todo += [*(x.__closure__ or ())] if is_function else gc.get_referents(x)
    assert 0.95 * total <= cycle.nbytes <= 1.05 * total
