"""Everything public can be pickled and copied; what is remembered, locks and engine handles stay
behind.
"""

from __future__ import annotations

import copy
import importlib
import multiprocessing
import pickle
import pkgutil
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch

import ldiv
from ldiv import errors, structures
from ldiv.core.frameworks.dispatch import asnumpy
from ldiv.core.frameworks.trees import leaves

A = np.array([[4.0, 1.0, 0.0], [1.0, 5.0, 1.0], [0.0, 1.0, 6.0]])
B, b = np.triu(A), np.array([1.0, 2.0, 3.0])
WAYS: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "old pickle": lambda x: pickle.loads(pickle.dumps(x, 0)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}
ways = pytest.mark.parametrize("way", WAYS)


def scale(d: Any, X: Any) -> Any:
    return d[:, None] * X


def tensor(x: Any, *, result: bool = True) -> torch.Tensor:
    """A tensor that is part of a graph."""
    leaf = torch.tensor(x, requires_grad=True)
    return 2 * leaf if result else leaf


# -- errors -------------------------------------------------------------------

ERRORS: list[Exception] = [
    errors.LinAlgError("no convergence"),
    ldiv.SingularMatrixError("lapack", "a zero pivot"),
    ldiv.NotPositiveDefiniteError("lapack", "a negative pivot"),
    ldiv.NotPositiveDefiniteError("lapack", "a negative pivot", "the Hessian", "(a) a saddle"),
    ldiv.NotSymmetricError(0.5, "transpose"),
    ldiv.ConvergenceError("cg", 7, 0.5, 1e-9),
    ldiv.LinAlgOverflowError("the solution overflows"),
    ldiv.NotDifferentiableError("a kink"),
    ldiv.QuadraticProgramError("infeasible", [1.0, 2.0], "combination of the constraints"),
    ldiv.EngineError("no engine"),
    errors.EngineUnavailableError("PARDISO", "is not installed"),
    errors.NotNumbersError("an array of text"),
    ldiv.TooNoisyError("noise"),
    ldiv.WrongDerivativeError("a sign"),
]


@ways
@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
def test_errors(error: Exception, way: str) -> None:
    error.add_note("in the second step")
    twin = WAYS[way](error)
    assert type(twin) is type(error)
    assert (str(twin), twin.args, vars(twin)) == (str(error), error.args, vars(error))


def test_every_error_is_in_the_table() -> None:
    kinds = {e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, Exception)}
    assert kinds - {errors.Portable} <= set(map(type, ERRORS))


def test_between_processes() -> None:
    """A worker's error arrives, and the next task is done; a pattern made there is the same one
    here.
    """
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        with pytest.raises(ldiv.SingularMatrixError, match="singular to working precision"):
            pool.submit(ldiv.solve, np.zeros((2, 2)), np.ones(2)).result(25)
        there = pool.submit(ldiv.asarray, A).result(25)
        assert there.structure == ldiv.asarray(A).structure
        np.testing.assert_array_equal(
            pool.submit(ldiv.solve, ldiv.asarray(A), b).result(25), ldiv.solve(ldiv.asarray(A), b)
        )


# -- matrices -----------------------------------------------------------------

MATRICES: dict[str, Callable[[], Any]] = {
    "sparse": lambda: ldiv.asarray(A),
    "sparse view": lambda: ldiv.asarray(B).T,
    "sparse torch": lambda: ldiv.asarray(torch.tensor(A)),
    "in a graph": lambda: ldiv.asarray(tensor(A)),
    "a leaf": lambda: ldiv.asarray(torch.tensor(A)).with_data(tensor(A.ravel(), result=False)),
    "diagonal": lambda: ldiv.Matrix(structures.Diagonal(3), b),
    "Kronecker product": lambda: ldiv.kron(A, ldiv.asarray(B)),
    "blocks in a graph": lambda: ldiv.block_array(
        [[tensor(A), None], [ldiv.asarray(tensor(A)), torch.tensor(A)]]
    ),
    "Gram": lambda: ldiv.Gram(A),
    "update": lambda: ldiv.asarray(A) + ldiv.LowRank(b, b),
    "operator": lambda: ldiv.LinearOperator(scale, b, shape=(3, 3)),
    "operator in a graph": lambda: ldiv.LinearOperator(scale, tensor(b), shape=(3, 3)),
    "inverse": lambda: ldiv.factorized(A).inverse,
    "jacobi": lambda: ldiv.preconditioner(ldiv.asarray(A), "jacobi"),
    "block_jacobi": lambda: ldiv.preconditioner(ldiv.asarray(A), "block_jacobi", block_size=2),
    "ilu": lambda: ldiv.preconditioner(ldiv.asarray(A), "ilu", drop_tol=0.1),
    "amg": lambda: ldiv.preconditioner(ldiv.asarray(A), "amg", near_nullspace=np.ones((3, 1))),
    "spectral function": lambda: ldiv.spectral_function(np.exp, A, 2, which="SA"),
}


def numbers(matrix: Any) -> Any:
    flat = matrix.structure.core
    ones = np.ones(matrix.structure.shape[1])
    on_torch = isinstance(
        matrix.params if not isinstance(flat, tuple) else leaves(matrix.params)[0], torch.Tensor
    )
    return asnumpy(matrix @ (torch.from_numpy(ones) if on_torch else ones))


@ways
@pytest.mark.parametrize("name", MATRICES)
def test_matrices(name: str, way: str) -> None:
    matrix = MATRICES[name]()
    expected = numbers(matrix)  # something is remembered now
    twin = WAYS[way](matrix)
    assert type(twin) is type(matrix)
    assert twin.structure == matrix.structure and hash(twin.structure) == hash(matrix.structure)
    if way != "copy":
        assert "_memo" not in vars(twin.structure)
    np.testing.assert_array_equal(numbers(twin), expected)
    if way != "copy":
        assert all(
            t is not x for t, x in zip(leaves(twin.params), leaves(matrix.params), strict=True)
        )


@ways
def test_a_copy_in_a_graph(way: str) -> None:
    """A shallow copy is in the graph; the values of others are leaves, as torch pickles them."""
    leaf = torch.tensor(A, requires_grad=True)
    matrix = ldiv.asarray(2 * leaf)
    twin = WAYS[way](matrix)
    twin.data.retain_grad()
    ldiv.solve(twin, torch.tensor(b)).sum().backward()
    assert twin.data.grad is not None
    assert (leaf.grad is None) == twin.data.is_leaf == (way != "copy")


def test_what_is_shared_stays_shared() -> None:
    data = tensor(A)
    one, two, three = copy.deepcopy(
        [ldiv.asarray(A), *(ldiv.Matrix(structures.Dense(3, 3), data) for _ in range(2))]
    )[:3]
    assert two.params is three.params is not data
    assert one is not two


# -- factors, results, marks --------------------------------------------------


@ways
@pytest.mark.parametrize(
    "make", [lambda: A, lambda: ldiv.asarray(A), lambda: ldiv.asarray(tensor(A))]
)
def test_factorized(make: Callable[[], Any], way: str) -> None:
    F = ldiv.factorized(make(), assume_a="pos")
    twin = WAYS[way](F)
    like = (lambda x: x) if isinstance(F.solve.__self__._params, np.ndarray) else torch.tensor
    np.testing.assert_array_equal(asnumpy(twin.solve(like(b))), asnumpy(F.solve(like(b))))
    np.testing.assert_array_equal(asnumpy(twin.logabsdet()), asnumpy(F.logabsdet()))


def test_a_factor_is_held_by_its_copy() -> None:
    twin = pickle.loads(pickle.dumps(ldiv.factorized(ldiv.asarray(A))))
    ldiv.clear_cache()
    twin.solve(b)
    assert ldiv.cache_info().factorizations == 0


RESULTS: dict[str, Callable[[], Any]] = {
    "SolveInfo": lambda: ldiv.solve(A, b, info=True)[1],
    "SolveInfo in a graph": lambda: ldiv.solve(tensor(A), torch.tensor(b), info=True)[1],
    "RootInfo": lambda: ldiv.root(
        lambda x, p: x**2 - p, torch.tensor(abs(b)), torch.tensor(abs(b)), info=True
    )[1],
    "LeastSquaresInfo": lambda: ldiv.least_squares(
        lambda x, p: x**2 - p, torch.ones(2), torch.ones(2), info=True
    )[1],
    "EstimateInfo": lambda: ldiv.logdet(A, assume_a="pos", method="slq", rng=0, info=True)[1],
    "EigenInfo": lambda: ldiv.eigsh(A, 1, info=True)[-1],
    "Explanation": lambda: ldiv.explain(A),
    "CacheInfo": ldiv.cache_info,
    "GradientError": lambda: ldiv.gradient_error(b, ldiv.asarray(A), b),
    "Report": lambda: ldiv.gradcheck(torch.sin, torch.tensor(b)),
    "Duplicated": lambda: ldiv.Duplicated(A, 0 * A),
    "Tape": ldiv.Tape,
}


@ways
@pytest.mark.parametrize("name", RESULTS)
def test_results(name: str, way: str) -> None:
    found = RESULTS[name]()
    twin = WAYS[way](found)
    assert type(twin) is type(found)
    assert repr(twin) == repr(found)
    assert getattr(twin, "condition", None) == getattr(found, "condition", None)


@ways
@pytest.mark.parametrize("make", [lambda: A, lambda: ldiv.asarray(A)])
@pytest.mark.parametrize(
    "mark",
    [ldiv.symmetric, ldiv.hermitian, ldiv.positive_definite, ldiv.triangular, ldiv.orthonormal],
)
def test_marks(mark: Any, make: Callable[[], Any], way: str) -> None:
    value = np.eye(3)[:, :2] if mark is ldiv.orthonormal else make()
    argument = mark(value)
    twin = WAYS[way](argument)
    (d,), (e,) = (a.random(np.random.default_rng(0)) for a in (argument, twin))
    np.testing.assert_array_equal(d, e)
    assert twin.reach == argument.reach


def drawn(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape)


CASES = [
    structure
    for found in pkgutil.iter_modules(structures.__path__)
    for structure, _ in getattr(
        importlib.import_module(f"ldiv.structures.{found.name}"), "cases", lambda draw: ()
    )(drawn)
]


@ways
def test_structures(way: str) -> None:
    assert len(CASES) > 30
    for structure in CASES:
        twin = WAYS[way](structure)
        assert twin == structure and hash(twin) == hash(structure) and "_memo" not in vars(twin)


@pytest.mark.parametrize("way", ["pickle", "copy", "deepcopy"])
def test_a_tape_in_use(way: str) -> None:
    tape = ldiv.Tape()
    tape.copy(ldiv.Duplicated(A, 0 * A), ldiv.Duplicated(0 * A, 0 * A))
    with pytest.raises(
        TypeError,
        match=r"copy of a Tape: expected one without operations, got .+ Call reverse first",
    ):
        WAYS[way](tape)
