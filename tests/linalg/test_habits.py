"""Habits of people who come from SciPy, NumPy or PyTorch: for names that ldiv does not have it says
what to write.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv
from ldiv.core.keywords import INSTEAD

torch = pytest.importorskip("torch")
I2, b = np.eye(2), np.ones(2)
ONE = torch.ones(1, dtype=torch.float64)
TALL = sp.random(50, 20, 0.3, random_state=0).tocsc() + 1e-6 * sp.eye(50, 20)
ANY: Any = ldiv
SPARSE: Any = ldiv.eye_array(3)


def _imported(module: str, name: str) -> Any:
    return getattr(importlib.import_module(f"ldiv.{module}"), name)


WORDS: dict[str, tuple[type[Exception], str, Callable[[], Any]]] = {
    "sym_pos": (TypeError, "assume_a='pos'", lambda: ANY.solve(I2, b, sym_pos=True)),
    "out": (TypeError, "'out'. Results are new", lambda: ANY.solve(I2, b, out=b)),
    "left": (TypeError, "A.mT", lambda: ANY.solve(I2, b, left=False)),
    "show": (TypeError, "Nothing is printed", lambda: ANY.spsolve(I2, b, show=True)),
    "x0": (TypeError, "r = b - A @ x0", lambda: ANY.spsolve(I2, b, x0=b)),
    "args": (TypeError, "`params`", lambda: ANY.root(lambda x, p: x - p, ONE, args=(2.0,))),
    "jac": (TypeError, "those of f", lambda: ANY.root(lambda x: x - 1, ONE, jac=True)),
    "nothing alike": (TypeError, "It takes A, ", lambda: ANY.logdet(I2, zzz=1)),
    "a slip": (TypeError, "Do you mean 'assume_a'", lambda: ANY.solve(I2, b, asume_a="pos")),
    "operator": (TypeError, "params, shape=", lambda: ANY.LinearOperator((2, 2), matvec=abs)),
    "csr": (
        TypeError,
        r"\(data, indices, indptr\)",
        lambda: ldiv.csr_array((np.array([0, 1]), b, np.array([0, 1, 2]))),
    ),
    "A.solve": (AttributeError, "ldiv.solve", lambda: SPARSE.solve),
    "complex root": (ValueError, "2 n unknowns", lambda: ldiv.root(lambda x: x, 1j * np.ones(1))),
    "damp": (ValueError, "lsqr", lambda: ANY.lstsq(I2, b, damp=ONE[0])),
    "weights": (
        ValueError,
        "weights: expected numbers that are not negative, got -2",
        lambda: ldiv.lstsq(I2, b, weights=np.array([1.0, -2.0])),
    ),
    "lsqr": (
        ldiv.ConvergenceError,
        "the residual over b is.*damp.*iter_lim",
        lambda: ldiv.lsqr(TALL, np.ones(50), iter_lim=2),
    ),
    "lsmr": (
        ldiv.ConvergenceError,
        "maxiter too small",
        lambda: ldiv.lsmr(TALL, np.ones(50), maxiter=2),
    ),
    "SciPy's module": (ImportError, "from ldiv import solve", lambda: _imported("linalg", "solve")),
    "sparse module": (ImportError, "import csr_array", lambda: _imported("sparse", "csr_array")),
    "halves": (TypeError, "convert it to float32", lambda: ldiv.solve(torch.eye(2).half(), ONE)),
    "f(x, params)": (
        TypeError,
        r"detect_pattern\(lambda x: f\(x, params\), x\)",
        lambda: ANY.detect_pattern(lambda x, p: x * p, ONE, ONE),
    ),
    "batch of vectors": (
        ValueError,
        r"is b\[\.\.\., None\]",
        lambda: ldiv.solve(torch.eye(3).expand(5, 3, 3), torch.ones(5, 3)),
    ),
    "by place": (TypeError, "takes A, b by their places", lambda: ANY.solve(I2, b, "pos")),
    "fsolve": (AttributeError, "ldiv.root", lambda: ANY.fsolve),
}


@pytest.mark.parametrize("name", WORDS)
def test_what_to_write(name: str) -> None:
    error, words, call = WORDS[name]
    with pytest.raises(error, match=words):
        call()


def test_no_keyword_of_the_table_names_one_that_nobody_has() -> None:
    import inspect

    functions = [f for f in (getattr(ldiv, name) for name in ldiv.__all__) if inspect.isfunction(f)]
    names = {name for f in functions for name in inspect.signature(f).parameters}
    assert {instead for instead, _ in INSTEAD.values() if instead} <= names


def test_a_type_error_of_a_function_of_the_user_is_passed_on() -> None:
    def f(x: Any) -> Any:
        return x.no(method=1)

    with pytest.raises(AttributeError, match="no"):
        ldiv.root(f, ONE, tol=1e-9)


def test_one_number_is_a_matrix_in_riccati_equations() -> None:
    one = np.ones((1, 1))
    assert np.allclose(
        ldiv.solve_continuous_are(one, one, 2.0, 1.0),
        ldiv.solve_continuous_are(one, one, 2 * one, one),
    )
