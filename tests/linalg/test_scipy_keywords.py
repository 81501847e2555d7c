"""SciPy's keywords mean here what they mean there, or change nothing; PyTorch's those of lobpcg."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg as spla
import torch

import ldiv

N = 8
RNG = np.random.default_rng(3)
A = RNG.standard_normal((N, N)) + 6 * np.eye(N)
C = A + 1j * RNG.standard_normal((N, N))
S = A @ A.T
TRI = np.triu(np.tril(S, 1), -1)
TALL = RNG.standard_normal((N, 5))
b = RNG.standard_normal(N)
B = RNG.standard_normal((N, 3))
BAND = np.stack([np.ones(N), 4 + np.arange(N)])
FINITE = {"check_finite": False}

# (a call in SciPy's words, of either module)
DENSE: dict[str, Callable[[Any], Any]] = {
    **{
        f"solve {name}": lambda m, a=a, name=name: m.solve(
            a, B, assume_a=name, overwrite_a=True, overwrite_b=True, **FINITE
        )
        for name, a in {
            "general": A,
            "symmetric": S,
            "hermitian": C + C.conj().T,
            "positive definite": S,
            "tridiagonal": TRI,
            "banded": TRI,
            "diagonal": np.diag(b),
            "upper triangular": np.triu(A),
        }.items()
    },
    "solve None": lambda m: m.solve(A, b, assume_a=None),
    "solve transposed": lambda m: m.solve(A, b, transposed=True),
    "solve lower": lambda m: m.solve(S, b, assume_a="pos", lower=True),
    "solve_triangular": lambda m: m.solve_triangular(A, b, lower=True, overwrite_b=True, **FINITE),
    "lu": lambda m: m.lu(C, overwrite_a=True, **FINITE),
    "lu permute_l": lambda m: m.lu(C, permute_l=True),
    "lu p_indices": lambda m: m.lu(TALL, p_indices=True),
    "lu_solve": lambda m: m.lu_solve(
        m.lu_factor(A, overwrite_a=True, **FINITE), b, overwrite_b=True, **FINITE
    ),
    "cholesky": lambda m: m.cholesky(S, lower=True, overwrite_a=True, **FINITE),
    "cho_solve": lambda m: m.cho_solve(
        m.cho_factor(S, overwrite_a=True, **FINITE), b, overwrite_b=True, **FINITE
    ),
    "ldl": lambda m: m.ldl(S - 5 * np.eye(N), overwrite_a=True, **FINITE),
    "det": lambda m: m.det(A, overwrite_a=True, **FINITE),
    "det float32": lambda m: m.det(1e5 * A.astype(np.float32)),
    "solve_banded": lambda m: m.solve_banded(
        (0, 1), BAND, b, overwrite_ab=True, overwrite_b=True, **FINITE
    ),
    "solveh_banded": lambda m: m.solveh_banded(
        BAND, b, overwrite_ab=True, overwrite_b=True, lower=False, **FINITE
    ),
    "cho_solve_banded": lambda m: m.cho_solve_banded(
        (m.cholesky_banded(BAND, overwrite_ab=True, **FINITE), False), b, overwrite_b=True, **FINITE
    ),
    "solve a": lambda m: m.solve(a=A, b=b),
    "inv a": lambda m: m.inv(a=A),
    "det a": lambda m: m.det(a=A),
    "eigh a": lambda m: m.eigh(a=S, b=TRI @ TRI.T + np.eye(N), eigvals_only=True),
    "eigvalsh a": lambda m: m.eigvalsh(a=S),
    "solve_triangular a": lambda m: m.solve_triangular(a=A, b=b),
    "qr lwork": lambda m: m.qr(TALL, mode="economic", lwork=64),
    "eigh": lambda m: m.eigh(S, eigvals_only=True, lower=True, overwrite_a=True, **FINITE),
    "eigh b": lambda m: m.eigh(TRI, b=S, eigvals_only=True, driver="gvd"),
    **{
        f"lstsq {driver} {shape}": lambda m, a=a, y=y, driver=driver: m.lstsq(
            a, y, lapack_driver=driver, overwrite_a=True, overwrite_b=True, **FINITE
        )
        for driver in ("gelsd", "gelss", "gelsy")
        for shape, a, y in (("tall", TALL, b), ("block", TALL, B), ("wide", TALL.T, B[:5]))
    },
    "empty solve": lambda m: m.solve(np.empty((0, 0), complex), np.empty(0)),
    "empty columns": lambda m: m.solve(C, np.empty((N, 0))),
    "empty triangle": lambda m: m.solve_triangular(np.empty((0, 0), complex), np.empty(0)),
    "empty lu": lambda m: m.lu_solve(m.lu_factor(np.empty((0, 0), complex)), np.empty(0)),
    "empty cho": lambda m: m.cho_solve((np.empty((0, 0), complex), True), np.empty(0)),
    "empty toeplitz": lambda m: m.solve_toeplitz(np.empty(0), np.empty(0)),
    "care of numbers": lambda m: m.solve_continuous_are(2, 1.0, 3, np.float64(2.0), s=0.5),
    "dare of numbers": lambda m: m.solve_discrete_are(np.array(0.5), 1.0, 3, 2, e=2.0),
    "lyapunov of numbers": lambda m: m.solve_continuous_lyapunov(2.0, 1),
    "empty band": lambda m: m.cholesky_banded(np.empty((0, 0))),
}


@pytest.mark.parametrize("call", DENSE)
def test_dense_functions_say_what_scipy_says(call: str) -> None:
    before = [x.copy() for x in (A, C, S, TRI, TALL, b, B, BAND)]
    ours = DENSE[call](ldiv)
    for x, y in zip((A, C, S, TRI, TALL, b, B, BAND), before, strict=True):
        np.testing.assert_array_equal(x, y)  # nothing was overwritten
        x.setflags(write=False)
    try:
        theirs = DENSE[call](scipy.linalg)
    finally:
        for x in (A, C, S, TRI, TALL, b, B, BAND):
            x.setflags(write=True)
    several = isinstance(theirs, tuple)
    assert isinstance(ours, tuple) == several
    for x, y in zip(*((ours, theirs) if several else ((ours,), (theirs,))), strict=True):
        if y is None:
            assert x is None
            continue
        assert np.shape(x) == np.shape(y)
        if "lu_solve" not in call:
            assert np.asarray(x).dtype.kind == np.asarray(y).dtype.kind
        np.testing.assert_allclose(x, y, rtol=1e-4 if "float32" in call else 1e-9, atol=1e-9)


def test_a_transpose_is_said_once() -> None:
    with pytest.raises(ValueError, match="transposed"):
        ldiv.solve(A, b, trans="T", transposed=True)


def test_tridiagonal_is_checked_in_every_call() -> None:
    for to in (np.asarray, torch.tensor, sp.csr_array):
        for _ in range(2):
            x = ldiv.solve(
                to(TRI), torch.tensor(b) if to is torch.tensor else b, assume_a="tridiagonal"
            )
            np.testing.assert_allclose(x, np.linalg.solve(TRI, b))
            with pytest.raises(ValueError, match="zeros outside of the three diagonals"):
                ldiv.solve(
                    to(S), torch.tensor(b) if to is torch.tensor else b, assume_a="tridiagonal"
                )


def test_lstsq_refuses_what_cond_cuts_off() -> None:
    x, residues, rank, s = ldiv.lstsq(TALL, b, cond=1e-10)
    np.testing.assert_allclose(residues, ((TALL @ x - b) ** 2).sum(), rtol=1e-12)
    assert (x.shape, rank, s) == ((5,), 5, None)
    with pytest.raises(ldiv.SingularMatrixError, match="cond"):
        ldiv.lstsq(TALL, b, cond=0.99)


def test_what_is_checked_is_checked_in_compiled_programs_too() -> None:
    jax = pytest.importorskip("jax")
    jnp = jax.numpy
    with jax.enable_x64(True):
        f = jax.jit(lambda a, b: ldiv.solve(a, b, assume_a="tridiagonal"))
        np.testing.assert_allclose(f(jnp.asarray(TRI), jnp.asarray(b)), np.linalg.solve(TRI, b))
        with pytest.raises(Exception, match="zeros outside of the three diagonals"):
            jax.block_until_ready(f(jnp.asarray(S), jnp.asarray(b)))
        g = jax.jit(lambda a, b: ldiv.lstsq(a, b, cond=0.99)[0])
        with pytest.raises(Exception, match="cond"):
            jax.block_until_ready(g(jnp.asarray(TALL), jnp.asarray(b)))
    t = torch.tensor(TRI, requires_grad=True)
    (slope,) = torch.autograd.grad(ldiv.solve(t, torch.tensor(b), assume_a="tridiagonal").sum(), t)
    lam = np.linalg.solve(TRI.T, np.ones(N))
    np.testing.assert_allclose(slope, -np.outer(lam, np.linalg.solve(TRI, b)))


# -- eigenpairs ---------------------------------------------------------------

BIG = 60
D = np.arange(1.0, BIG + 1)
K = sp.diags_array([D, 0.3 * np.ones(BIG - 1), 0.3 * np.ones(BIG - 1)], offsets=[0, 1, -1]).tocsc()
G = sp.diags_array([1 + 0.5 * np.sin(D)], offsets=[0]).tocsc()


@pytest.mark.parametrize("which", ["LM", "SM", "LA", "SA", "BE"])
@pytest.mark.parametrize("mode", ["normal", "buckling", "cayley"])
@pytest.mark.parametrize("pencil", [False, True])
@pytest.mark.parametrize("sigma", [7.3, -2.5])
def test_modes_of_eigsh(mode: str, which: str, pencil: bool, sigma: float) -> None:
    M = G if pencil else None
    w, X = ldiv.eigsh(K, 4, M, sigma, which, mode=mode, rng=0)
    lam = scipy.linalg.eigh(K.toarray(), None if M is None else M.toarray(), eigvals_only=True)
    nu = {
        "normal": 1 / (lam - sigma),
        "buckling": lam / (lam - sigma),
        "cayley": (lam + sigma) / (lam - sigma),
    }[mode]
    order = {
        "LM": np.argsort(-abs(nu)),
        "SM": np.argsort(abs(nu)),
        "LA": np.argsort(-nu),
        "SA": np.argsort(nu),
        "BE": np.argsort(nu)[[0, 1, -1, -2]],
    }[which]
    np.testing.assert_allclose(w, np.sort(lam[order[:4]]), rtol=1e-9)
    np.testing.assert_allclose(K @ X, (X if M is None else M @ X) * w, atol=1e-8)
    metric = K if mode == "buckling" else sp.eye_array(BIG) if M is None else M
    np.testing.assert_allclose(X.T @ (metric @ X), np.eye(4), atol=1e-9)


def test_buckling_loads_have_derivatives() -> None:
    """d lam = x^T (dK - lam dG) x / (x^T G x), of an indefinite G."""
    g = torch.tensor(np.diag(np.where(D[:10] > 5, 1.0, -0.5)), requires_grad=True)
    k = torch.tensor(K.toarray()[:10, :10], requires_grad=True)
    w, X = ldiv.eigsh(k, 3, g, 2.0, mode="buckling")
    (of_k, of_g) = torch.autograd.grad(w[1], (k, g))
    x, lam = X[:, 1].detach(), w[1].detach()
    m = x @ g.detach() @ x
    torch.testing.assert_close(of_k, torch.outer(x, x) / m)
    torch.testing.assert_close(of_g, -lam * torch.outer(x, x) / m)


@pytest.mark.parametrize("mode", ["buckling", "cayley"])
def test_modes_need_a_shift(mode: str) -> None:
    for sigma in (None, 0.0):
        with pytest.raises(ValueError, match="sigma: expected a number other than 0"):
            ldiv.eigsh(K, 2, sigma=sigma, mode=mode)


@pytest.mark.parametrize("which", ["LM", "SM"])
@pytest.mark.parametrize("vectors", [True, False, "u", "vh"])
@pytest.mark.filterwarnings("ignore:The problem size")  # of lobpcg, see below
@pytest.mark.parametrize("solver", ["arpack", "lobpcg", "propack"])
def test_svds(which: str, vectors: Any, solver: str) -> None:
    for a in (TALL, TALL.T, sp.csr_array(TALL)):
        found = ldiv.svds(a, 2, which=which, return_singular_vectors=vectors, solver=solver, rng=1)
        full = scipy.linalg.svdvals(TALL)
        u, s, vh = (None, found, None) if vectors is False else found
        np.testing.assert_allclose(s, full[1::-1] if which == "LM" else full[:-3:-1], rtol=1e-10)
        assert (u is None) == (vectors in (False, "vh")) and (vh is None) == (
            vectors in (False, "u")
        )
        if vectors is True:
            dense = a.toarray() if sp.issparse(a) else a
            np.testing.assert_allclose(dense @ vh.T, u * s, atol=1e-10)


# SciPy's words for wrong arguments, by which a user finds what others say of them
WORDS: dict[str, tuple[type[Exception], str, Callable[[], Any]]] = {
    "other vectors": (
        ValueError,
        "`return_singular_vectors` must be in",
        lambda: ldiv.svds(TALL, 2, return_singular_vectors="ekki"),
    ),
    "a number of vectors": (
        ValueError,
        "`return_singular_vectors` must be in",
        lambda: ldiv.svds(TALL, 2, return_singular_vectors=10),
    ),
    "another solver": (
        ValueError,
        "solver must be one of",
        lambda: ldiv.svds(TALL, 2, solver="lapack"),
    ),
    "another end": (ValueError, "`which` must be in", lambda: ldiv.svds(TALL, 2, which="LA")),
    "k too large": (ValueError, "`k` must be an integer satisfying", lambda: ldiv.svds(TALL, 6)),
    "k of text": (TypeError, "invalid literal for int", lambda: ldiv.svds(TALL, "hi")),
    "k of a list": (TypeError, "int\\(\\) argument must be", lambda: ldiv.svds(TALL, [])),
    "tol": (
        ValueError,
        "`tol` must be a non-negative floating point value",
        lambda: ldiv.svds(TALL, 2, tol=-1),
    ),
    "tol of text": (TypeError, "'<' not supported", lambda: ldiv.svds(TALL, 2, tol="hi")),
    "maxiter": (
        ValueError,
        "`maxiter` must be a positive integer",
        lambda: ldiv.svds(TALL, 2, maxiter=5.5),
    ),
    "ncv": (ValueError, "`ncv` must be an integer", lambda: ldiv.svds(TALL, 2, ncv=2)),
    "v0 of another side": (
        ValueError,
        "`v0` must have shape \\(5,\\)",
        lambda: ldiv.svds(TALL, 2, v0=np.ones(N)),
    ),
    "v0 of another side for propack": (
        ValueError,
        "`v0` must have shape \\(8,\\)",
        lambda: ldiv.svds(TALL, 2, v0=np.ones(5), solver="propack"),
    ),
    "a number for v0": (ValueError, "`v0` must be of floating", lambda: ldiv.svds(TALL, 2, v0=1)),
    "nothing": (ValueError, "`A` must not be empty", lambda: ldiv.svds(np.empty((3, 0)), 1)),
    "objects": (
        ValueError,
        "`A` must be of numeric data type",
        lambda: ldiv.svds(A.astype(object), 2),
    ),
    "text": (TypeError, "type not understood", lambda: ldiv.svds("hi", 1)),
    "dates": (
        TypeError,
        "cannot be cast to float",
        lambda: ldiv.det(np.ones((2, 2), "datetime64[s]")),
    ),
    "infinity": (
        ValueError,
        "array must not contain infs or NaNs",
        lambda: ldiv.det([[1.0, 2.0], [3.0, np.inf]]),
    ),
    "a rectangle": (
        ValueError,
        "Last 2 dimensions of the array must be square",
        lambda: ldiv.det(TALL),
    ),
    "a rectangle to factor": (
        ValueError,
        "can only factor square matrices",
        lambda: ldiv.splu(sp.csc_array(TALL)),
    ),
    "a vector": (ValueError, "at least two-dimensional", lambda: ldiv.det(b)),
    "zeros as definite": (
        np.linalg.LinAlgError,
        "singular",
        lambda: ldiv.solve(np.zeros((N, N)), b, assume_a="pos"),
    ),
}


@pytest.mark.parametrize("name", WORDS)
def test_words_of_scipy(name: str) -> None:
    error, words, call = WORDS[name]
    with pytest.raises(error, match=words):
        call()


def test_errors_are_those_of_scipy_and_of_torch() -> None:
    """SuperLU, ARPACK and PyTorch raise a RuntimeError, SciPy and NumPy a LinAlgError."""
    for kind in (np.linalg.LinAlgError, RuntimeError):
        with pytest.raises(kind):
            ldiv.splu(sp.csc_array((3, 3)))
        with pytest.raises(kind):
            ldiv.cholesky(torch.tensor(-A @ A.T))
        with pytest.raises(kind):
            ldiv.solve(K, np.ones(BIG), method="cg", assume_a="pos", maxiter=1)


def test_flags_are_also_0_and_1() -> None:
    expected = scipy.linalg.solve_triangular(A, b, lower=True)
    for one, zero in ((1, 0), (np.int64(1), np.int32(0))):
        x = ldiv.solve_triangular(A, b, lower=one, unit_diagonal=zero, overwrite_b=one)
        np.testing.assert_allclose(x, expected)
    np.testing.assert_allclose(ldiv.lu(A, permute_l=1)[0], scipy.linalg.lu(A, permute_l=True)[0])
    assert ldiv.svds(TALL, 2, return_singular_vectors=0).shape == (2,)
    for other in (2, -1, 1.0, "1", None, np.array(1)):
        with pytest.raises(TypeError, match="lower: expected True or False"):
            ldiv.solve_triangular(A, b, lower=other)


def test_a_start_for_propack_is_one_of_the_left_side() -> None:
    for a in (TALL, TALL.T):
        for kind in (a, torch.tensor(a)):
            s = ldiv.svds(kind, 2, v0=np.ones(len(a)), solver="propack")[1]
            np.testing.assert_allclose(s, scipy.linalg.svdvals(a)[1::-1])


def test_the_smallest_singular_values_of_a_sparse_matrix() -> None:
    """Beyond the size up to which sparse matrices are made dense for pairs at an end."""
    for m, n in ((130, 110), (110, 130)):
        rng = np.random.default_rng(0)
        S = sp.random_array((m, n), density=0.1, rng=rng) + sp.eye_array(m, n)
        S = S.tocoo()
        values = torch.tensor(S.data, requires_grad=True)
        u, s, vh = ldiv.svds(ldiv.coo_array((values, (S.row, S.col)), shape=(m, n)), 3, which="SM")
        dense = scipy.linalg.svd(S.toarray())
        np.testing.assert_allclose(s.detach(), dense[1][:-4:-1], rtol=1e-10)
        (slope,) = torch.autograd.grad(s[1], values)
        rank_one = np.outer(u[:, 1].detach(), vh[1].detach())
        np.testing.assert_allclose(slope, rank_one[S.row, S.col], atol=1e-10)


def test_svds_says_where_scipy_would_not_take_lobpcg() -> None:
    small, large = np.diag(np.arange(1.0, 10)), np.diag(np.arange(1.0, 11))
    with pytest.warns(UserWarning, match=r"The problem size 9 is too small .* 2 vectors"):
        ldiv.svds(small, 2, solver="lobpcg")
    ldiv.svds(small, 2)
    ldiv.svds(large, 2, solver="lobpcg")


# -- lobpcg, in the words of SciPy and of PyTorch -----------------------------


def test_lobpcg() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((BIG, 3))
    largest = scipy.linalg.eigvalsh(K.toarray())[:-4:-1]  # the first one, as in SciPy and PyTorch
    np.testing.assert_allclose(spla.lobpcg(K, X, maxiter=500)[0], largest, rtol=1e-6)
    at_torch = torch.lobpcg(torch.tensor(K.toarray()), 3, niter=500)[0]
    np.testing.assert_allclose(at_torch, largest, rtol=1e-3)
    w, _ = ldiv.lobpcg(K, X, largest=True, verbosityLevel=0, restartControl=5)
    np.testing.assert_allclose(w, largest, rtol=1e-7)
    for A, M in (
        (K, np.diag(1 / D)),
        (K, sp.diags_array([1 / D], offsets=[0])),
        (lambda x: K @ x, lambda x: x / D[:, None]),
        (spla.aslinearoperator(K), spla.aslinearoperator(np.diag(1 / D))),
    ):
        w, _ = ldiv.lobpcg(A, X, M=M, largest=False)
        np.testing.assert_allclose(w, scipy.linalg.eigvalsh(K.toarray())[:3], rtol=1e-7)
    w, Z = ldiv.lobpcg(K, X + 1j * rng.standard_normal((BIG, 3)))
    np.testing.assert_allclose(w, largest, rtol=1e-7)
    assert Z.dtype == np.complex128
    t = torch.tensor(K.toarray(), requires_grad=True)
    w, _ = ldiv.lobpcg(t, k=3, niter=300, tol=1e-9, largest=True, iK=torch.eye(BIG).double())
    np.testing.assert_allclose(w.detach(), largest, rtol=1e-7)
    w.sum().backward()
    assert torch.isclose(torch.trace(t.grad), torch.tensor(3.0, dtype=torch.float64))
    with pytest.raises(ValueError, match="k: expected"):
        ldiv.lobpcg(t)
    with pytest.raises(ValueError, match="niter: expected one of"):
        ldiv.lobpcg(t, k=2, niter=3, maxiter=3)


# -- in the words of NumPy, PyTorch and JAX ----------------------------------------------------------


def test_words_of_numpy_torch_and_jax() -> None:
    for to in (np.asarray, torch.tensor):
        c, s, tall, y = map(to, (C @ C.conj().T, S, TALL, b))
        for upper in (True, False):
            factor = ldiv.cholesky(c, upper=upper)
            np.testing.assert_allclose(factor, np.linalg.cholesky(C @ C.conj().T, upper=upper))
        for uplo in ("L", "U"):
            np.testing.assert_allclose(ldiv.eigvalsh(s, UPLO=uplo), np.linalg.eigvalsh(S))
            w, X = ldiv.eigh(s, UPLO=uplo)
            np.testing.assert_allclose(s @ X, X * w, atol=1e-9)
        np.testing.assert_allclose(
            ldiv.pinv(s, rcond=1e-12, hermitian=True), np.linalg.pinv(S, 1e-12, True)
        )
        assert int(ldiv.matrix_rank(s, None, True, rtol=1e-3)) == np.linalg.matrix_rank(
            S, None, True, rtol=1e-3
        )
        x = ldiv.lstsq(tall, y, rcond=1e-12)[0]
        np.testing.assert_allclose(x, np.linalg.lstsq(TALL, b, rcond=1e-12)[0])
        assert ldiv.pinv(np.diag([1.0, 1e-3]), rcond=1e-2)[1, 1] == 0


def test_words_that_mean_the_same_are_said_once() -> None:
    with pytest.raises(ValueError, match="upper: expected True"):
        ldiv.cholesky(S, lower=False, upper=False)
    np.testing.assert_array_equal(
        ldiv.cholesky(S, lower=False, upper=True), ldiv.cholesky(S, lower=False)
    )
    with pytest.raises(ValueError, match="rcond: expected one of"):
        ldiv.lstsq(TALL, b, 1e-10, rcond=1e-10)
    with pytest.raises(ValueError, match="rcond: expected one of"):
        ldiv.pinv(TALL, rtol=1e-10, rcond=1e-10)
    with pytest.raises(ValueError, match="rcond: expected a finite"):
        ldiv.lstsq(TALL, b, rcond=-1)
    with pytest.raises(ldiv.SingularMatrixError, match="cond"):
        ldiv.lstsq(TALL, b, rcond=0.99)
    with pytest.raises(ValueError, match="UPLO: expected one of 'L', 'U'"):
        ldiv.eigh(S, UPLO="X")


@pytest.mark.parametrize("name", sorted(n for n in ldiv.__all__ if callable(getattr(ldiv, n))))
def test_an_array_in_the_place_of_a_flag_is_refused(name: str) -> None:
    """solve_toeplitz(c, r, b) took r for the right-hand side."""
    function = getattr(ldiv, name)
    if isinstance(function, type):
        return
    parameters = inspect.signature(function).parameters
    given = {
        key: np.eye(2) if p.default is p.empty else p.default
        for key, p in parameters.items()
        if p.kind is not p.VAR_KEYWORD
    }
    for place, (flag, p) in enumerate(parameters.items()):
        if flag == "check_finite" or flag.startswith("overwrite_"):
            calls = [lambda flag=flag: function(**given | {flag: np.ones(2)})]
            if p.kind is p.POSITIONAL_OR_KEYWORD:
                calls.append(lambda place=place: function(*[*given.values()][:place], np.ones(2)))
            for call in calls:
                with pytest.raises(TypeError, match=f"{flag}: expected True or False, got ndarray"):
                    call()


@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_qr_has_the_modes_of_numpy_and_pytorch(mode: Any) -> None:
    for a in (TALL, TALL.T, np.stack([TALL, 2 * TALL])):
        theirs = np.linalg.qr(a, mode)
        for ours in (ldiv.qr(a, mode), ldiv.qr(torch.tensor(a), mode=mode)):
            assert [tuple(x.shape) for x in ours] == [x.shape for x in theirs]
            np.testing.assert_allclose(ours[0] @ ours[1], a, atol=1e-12)
            np.testing.assert_allclose(abs(ours[1]), abs(theirs[1]), atol=1e-12)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("order", [None, 1, 2, np.inf, -np.inf])
def test_norms_of_rows_and_columns_of_a_sparse_matrix(order: Any, axis: int) -> None:
    a = sp.random_array((7, 5), density=0.5, rng=0).tocsr() - 0.5 * sp.eye_array(7, 5).tocsr()
    found = ldiv.norm(ldiv.asarray(a), order, axis=axis)
    np.testing.assert_allclose(found, spla.norm(a, order, axis=axis), rtol=1e-14)
    v = torch.tensor(a.tocsr().data, requires_grad=True)
    f = lambda v: ldiv.norm(ldiv.asarray(a.tocsr()).with_data(v), order, axis=axis)
    assert order == -np.inf or torch.autograd.gradcheck(f, v)


def test_words_of_numpy() -> None:
    """pinv(a, rcond, hermitian) by their places, svd(hermitian=)."""
    cut = np.linalg.svd(TALL)[1][-2:].mean() / np.linalg.norm(TALL, 2)
    np.testing.assert_allclose(ldiv.pinv(TALL, cut), np.linalg.pinv(TALL, cut), atol=1e-12)
    K = A + A.T
    np.testing.assert_allclose(ldiv.pinv(K, 1e-9, True), np.linalg.pinv(K, 1e-9, True), atol=1e-12)
    u, s, vh = ldiv.svd(K, hermitian=True)
    np.testing.assert_allclose(s, np.linalg.svd(K, hermitian=True)[1], rtol=1e-12)
    np.testing.assert_allclose((u * s) @ vh, K, atol=1e-12)


def test_matrices_have_the_names_of_pytorch() -> None:
    t = torch.tensor(TALL)
    assert torch.equal(ldiv.lstsq(A=t, B=t)[0], ldiv.lstsq(t, t)[0])
    assert torch.equal(ldiv.svdvals(A=t), ldiv.svdvals(t))
    with pytest.raises(TypeError, match="multiple values"):
        ldiv.solve(A, b, a=A)
    with pytest.raises(TypeError, match="unexpected keyword argument 'a'"):
        ldiv.solve(A=A, a=A, b=b)
