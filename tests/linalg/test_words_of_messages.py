"""A message speaks of arguments that the function has which raised it, and of no other's; and of
sparse matrices every dense function says the same, whoever made them.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from adversarial.bad_calls import EVERYWHERE

import ldiv

N = 12
b, X = np.ones(N), np.random.default_rng(0).standard_normal((N, 2))
BAND = sp.diags_array([-np.ones(N - 1), np.full(N, 2.0), -np.ones(N - 1)], offsets=[-1, 0, 1])
K, ONE_SIDED, NEGATIVE = BAND.tocsc(), (BAND + 0.5 * sp.eye_array(N, k=1)).tocsc(), -BAND.tocsc()
EMPTY_ROW = sp.diags_array(np.arange(float(N))).tocsc()
DEPENDENT = np.ones((N, 3))
WIDE = torch.ones(2, dtype=torch.float64)

# an argument's name is a word of the message only if it could be no other word
NAMES = {
    name
    for function in (getattr(ldiv, name) for name in ldiv.__all__)
    if inspect.isfunction(function)
    for name in inspect.signature(function).parameters
} & {
    *("assume_a", "maxiter", "rtol", "atol", "tol", "sigma", "ncv", "x0", "v0", "rcond"),
    *("on_degenerate", "tau", "rng", "atol", "OPinv", "M1", "iK", "tangents", "cond"),
}
BAD = {"asymmetric": ONE_SIDED, "negative": NEGATIVE, "singular": EMPTY_ROW}
SPARSE = "eigsh eigs svds cholesky splu logdet slogdet inertia inverse_diagonal"
SPARSE += " selected_inverse factorized explain"
DENSE = "eigh eigvalsh cholesky cho_factor cholesky_ex ldl ldl_factor pinvh inv inv_ex lu_factor"
DENSE += " logdet det slogdet cond sqrtm logm signm inertia"
ITERATIONS = "cg minres gmres bicgstab bicg cgs qmr tfqmr lgmres"
CALLS: dict[str, tuple[str, Callable[[], Any]]] = {
    **{
        f"{f} {kind}": (f, partial(getattr(ldiv, f), matrix))
        for f in SPARSE.split()
        for kind, matrix in BAD.items()
    },
    **{
        f"{f} dense {kind}": (f, partial(getattr(ldiv, f), matrix.toarray()))
        for f in DENSE.split()
        for kind, matrix in BAD.items()
    },
    **{
        f"{f} {kind}": (f, partial(getattr(ldiv, f), matrix, b, maxiter=2))
        for f in ITERATIONS.split()
        for kind, matrix in BAD.items()
    },
    **{
        f"{f} beside {kind}": (f, partial(getattr(ldiv, f), K, 2, M=matrix))
        for f in ("eigsh", "eigs", "eigenspace")
        for kind, matrix in BAD.items()
    },
    **{
        f"lobpcg {kind}": ("lobpcg", partial(ldiv.lobpcg, matrix, X, maxiter=1))
        for kind, matrix in BAD.items()
    },
    **{
        f"lobpcg beside {kind}": ("lobpcg", partial(ldiv.lobpcg, K, X, B=matrix))
        for kind, matrix in BAD.items()
    },
    **{
        f"{f} of {kind}": (f, partial(getattr(ldiv, f), K.toarray(), matrix.toarray()))
        for f in ("eigh", "eigvalsh")
        for kind, matrix in BAD.items()
    },
    **{
        f"{f} {kind}": (f, partial(getattr(ldiv, f), np.exp, matrix, 2))
        for f in ("spectral_sum", "spectral_function")
        for kind, matrix in BAD.items()
    },
    **{
        f"gaussian_logpdf {kind}": (
            "gaussian_logpdf",
            partial(ldiv.gaussian_logpdf, b, precision=matrix),
        )
        for kind, matrix in BAD.items()
    },
    **{
        f"solve {promise} {kind}": ("solve", partial(ldiv.solve, matrix, b, assume_a=promise))
        for promise in ("gen", "sym", "pos")
        for kind, matrix in BAD.items()
    },
    "eigsh that does not converge": ("eigsh", lambda: ldiv.eigsh(big(), 3, maxiter=1)),
    "svds that does not converge": ("svds", lambda: ldiv.svds(big(), 3, maxiter=1)),
    "eigs that does not converge": ("eigs", lambda: ldiv.eigs(big(), 3, maxiter=1)),
    "solveh_banded": ("solveh_banded", partial(ldiv.solveh_banded, -np.ones((2, N)), b)),
    "cholesky_banded": ("cholesky_banded", partial(ldiv.cholesky_banded, -np.ones((2, N)))),
    "solve_banded": ("solve_banded", partial(ldiv.solve_banded, (1, 1), np.zeros((3, N)), b)),
    "lstsq": ("lstsq", partial(ldiv.lstsq, DEPENDENT, b)),
    "lstsq with a bound": ("lstsq", partial(ldiv.lstsq, DEPENDENT, b, cond=1e-8)),
    "root without one": ("root", lambda: ldiv.root(lambda x, p: x**2 + p, WIDE, WIDE[0])),
}
REFUSED = 90  # of them; the rest is right, as a negative matrix is for `eigsh`


def big() -> Any:
    n = 500
    return sp.diags_array([-np.ones(n - 1), np.full(n, 2.0), -np.ones(n - 1)], offsets=[-1, 0, 1])


def message(call: Callable[[], Any]) -> str:
    """The message of the error or warning, empty if there is none."""
    try:
        call()
    except (ValueError, TypeError, RuntimeError, UserWarning) as error:
        return str(error)
    return ""


def test_a_message_has_words_of_its_own_function() -> None:
    messages = {name: message(call) for name, (_, call) in CALLS.items()}
    assert sum(map(bool, messages.values())) >= REFUSED
    for name, words in messages.items():
        of_others = re.sub(r"[\w.]+\([^()]*\)", "", words)  # calls of other functions, spelled out
        own = {*inspect.signature(getattr(ldiv, CALLS[name][0])).parameters}
        own |= {"ncv", "maxiter", "tol"} if "options" in own else set()
        said = {*re.findall(r"\w+", of_others)} & NAMES | {*re.findall(r"(\w+)=", of_others)}
        assert said <= own, f"{name}: {said - own} in {words}"


def test_promises_are_spoken_of_where_they_are_made() -> None:
    assert "assume_a='gen'" in message(lambda: ldiv.solve(ONE_SIDED, b, assume_a="sym"))
    assert "assume_a" not in message(lambda: ldiv.eigsh(ONE_SIDED, 2))


@pytest.mark.parametrize("name", EVERYWHERE)
def test_sparse_matrices_are_refused_alike(name: str) -> None:
    """No dense function sends its caller to `asarray`, and back."""
    f, arguments = EVERYWHERE[name](np.array)
    for key, value in arguments.items():
        if not isinstance(value, np.ndarray) or value.ndim != 2 or key.startswith("*"):
            continue
        raw = sp.csc_array(value)
        words = [
            message(lambda s=s, key=key: f(**{**arguments, key: s}))
            for s in (raw, ldiv.asarray(raw))
        ]
        plain = [
            re.sub(r"a sparse csc_array|a SparseArray|csc_array|SparseArray", "it", w)
            for w in words
        ]
        assert plain[0] == plain[1]
        assert "asarray" not in words[0]


def test_an_argument_is_named_by_its_own_name() -> None:
    with pytest.raises(ValueError, match=r"^p: expected .* got True"):
        ldiv.cond(np.eye(2), True)
    for damp in (np.ma.masked_array([1.0, 2.0]), np.ones(2)):
        with pytest.raises(ValueError, match=r"^damp: expected a finite real number"):
            ldiv.factorized(np.eye(2), damp=damp)


@pytest.mark.parametrize("f", [ldiv.norm, ldiv.matrix_norm, ldiv.vector_norm, ldiv.issymmetric])
def test_a_matrix_for_an_array_is_written_out(f: Callable[..., Any]) -> None:
    A = ldiv.toeplitz(b)
    with pytest.raises(
        TypeError, match=r"got a Matrix\. Write it out as a dense array, x\.toarray"
    ):
        f(A)
    f(A.toarray())
