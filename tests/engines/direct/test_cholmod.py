"""CHOLMOD, where scikit-sparse is installed (SuiteSparse from Debian's libsuitesparse-dev): the
laws of an engine, under assume_a='pos'.
"""

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv
from ldiv.core.pattern import Pattern
from ldiv.engines.direct import cholmod
from ldiv.engines.factored import factorization
from ldiv.engines.registry import engines
from ldiv.errors import EngineError, NotPositiveDefiniteError, SingularMatrixError
from ldiv.structures.sparse import Sparse
from ldiv.structures.symmetric import Symmetric
from ldiv.testing.cases import DTYPES, Draw
from ldiv.testing.distance import assert_close

needs_cholmod = pytest.mark.skipif(
    cholmod.missing() is not None, reason=f"CHOLMOD {cholmod.missing()}"
)


def definite(dtype, n=40, seed=0):
    """A sparse Hermitian positive definite matrix with rows of very different sizes."""
    draw = Draw(dtype, seed)
    half = sp.random_array(
        (n, n),
        density=0.08,
        rng=np.random.default_rng(seed),
        dtype=dtype,
        data_sampler=lambda size: draw(size),
    )
    scale = sp.diags_array(10.0 ** np.linspace(-3, 3, n))
    a = sp.csc_array(scale @ (half @ half.conj().T + sp.eye_array(n)) @ scale)
    a.sort_indices()
    return a


def structured(a):
    a = sp.coo_array(a)
    return Symmetric(Sparse(Pattern(a.row, a.col, a.shape))), a.data


def factored(a):
    return factorization(engines()["cholmod"], *structured(a), "pos")


@needs_cholmod
@pytest.mark.parametrize("dtype", DTYPES)
def test_solves_in_all_views_and_logabsdet(dtype):
    a = definite(dtype)
    factor, b = factored(a), Draw(dtype, 1)(40, 3)
    for op, view in (("N", a), ("T", a.T), ("H", a.conj().T)):
        x = factor.solve(b, op)
        assert_close(
            f"op(A) x = b, {op}",
            np.abs(b - view @ x).max() / (abs(a).sum(0).max() * np.abs(x).max()),
            0.0,
            1e-12,
        )
        assert_close(f"as dense, {op}", x, np.linalg.solve(view.toarray(), b), 1e-8)
    assert_close("logabsdet", factor.logabsdet(), np.linalg.slogdet(a.toarray())[1], 1e-12)
    assert factor.nbytes > a.data.nbytes


@needs_cholmod
@pytest.mark.parametrize("dtype", DTYPES)
def test_one_pattern_is_analysed_once_and_factors_do_not_disturb_each_other(dtype):
    a = definite(dtype)
    structure, p = structured(a)
    ldiv.clear_cache()
    b = Draw(dtype, 1)(40, 1)
    one, two = (
        factorization(engines()["cholmod"], structure, scale * p, "pos") for scale in (1.0, 2.0)
    )
    assert_close(
        "the second factor leaves the first as it was",
        one.solve(b, "N"),
        2 * two.solve(b, "N"),
        1e-12,
    )
    assert ldiv.cache_info().analyses == 1


@needs_cholmod
@pytest.mark.parametrize("dtype", DTYPES)
def test_value_and_gradient_agree_with_superlu(dtype):
    torch = pytest.importorskip("torch")
    a = definite(dtype)
    b, c = (torch.from_numpy(Draw(dtype, seed)(40)) for seed in (1, 2))
    found = {}
    for method in ("cholmod", "superlu"):
        values, rhs = torch.from_numpy(a.data).requires_grad_(), b.clone().requires_grad_()
        x = ldiv.solve(
            ldiv.csc_array((values, a.indices, a.indptr), shape=a.shape),
            rhs,
            assume_a="pos",
            method=method,
        )
        found[method] = (x.detach(), *torch.autograd.grad(x, (values, rhs), c))
    for ours, other in zip(found["cholmod"], found["superlu"], strict=True):
        assert_close("cholmod = superlu", ours.numpy(), other.numpy(), 1e-8)


@needs_cholmod
def test_a_complex_right_side_of_a_real_matrix():
    a, b = definite("float64"), Draw("complex128", 1)(40)
    x = ldiv.solve(ldiv.asarray(a), b, assume_a="pos", method="cholmod")
    assert_close("x", x, np.linalg.solve(a.toarray(), b), 1e-8)


@needs_cholmod
@pytest.mark.parametrize("dtype", DTYPES)
def test_indefinite_raises_and_the_analysis_survives(dtype):
    a = definite(dtype)
    structure, p = structured(a)
    engine = engines()["cholmod"]
    with pytest.raises(NotPositiveDefiniteError, match="CHOLMOD found a pivot"):
        factorization(engine, structure, -p, "pos")
    assert_close(
        "afterwards",
        factorization(engine, structure, p, "pos").logabsdet(),
        np.linalg.slogdet(a.toarray())[1],
        1e-12,
    )


@needs_cholmod
@pytest.mark.parametrize("stencil", [(1.0, -1.0), (1.0, -2.0, 1.0)], ids=["springs", "beam"])
def test_singular_raises(stencil):
    """A free chain of springs has pivots that are exact, a free beam has rounding in them."""
    d = sp.diags_array(stencil, offsets=range(len(stencil)), shape=(31 - len(stencil), 30))
    for a in (d.T @ d, 0 * (d.T @ d)):
        with pytest.raises((SingularMatrixError, NotPositiveDefiniteError)):
            factored(a).solve(np.ones((30, 1)), "N")


@needs_cholmod
def test_nan_and_asymmetry_are_refused():
    a = definite("float64")
    with pytest.raises(ValueError, match="finite"):
        factored(a * np.nan)
    lopsided = sp.csc_array(a + sp.coo_array(([1e3], ([0], [1])), shape=a.shape))
    with pytest.raises(ldiv.errors.NotSymmetricError):
        ldiv.solve(ldiv.asarray(lopsided), np.ones(40), assume_a="pos", method="cholmod")


@needs_cholmod
def test_a_build_without_metis_orders_by_amd(monkeypatch):
    kind = type(cholmod.Symbolic(structured(definite("float64"))[0].pattern).dialect)
    analyzed, asked = kind.analyzed, []

    def without_metis(self, m, order):
        asked.append(order)
        if order == "metis":
            raise cholmod.library().CholmodError("not installed")
        return analyzed(self, m, order)

    monkeypatch.setattr(kind, "analyzed", without_metis)
    a = definite("float64")
    assert_close("logabsdet", factored(a).logabsdet(), np.linalg.slogdet(a.toarray())[1], 1e-12)
    assert asked == ["metis", "amd"]


@needs_cholmod
def test_a_real_stiffness_matrix(real_matrix):
    a = real_matrix("bcsstk13")
    b = np.random.default_rng(0).standard_normal(a.shape[0])
    x = ldiv.solve(ldiv.asarray(a), b, assume_a="pos", method="cholmod")
    assert np.abs(b - a @ x).max() <= 1e-12 * (
        abs(a).sum(0).max() * np.abs(x).max() + np.abs(b).max()
    )


@pytest.mark.parametrize(
    ("dtype", "op", "assume_a", "device", "why"),
    [
        ("float64", "H", "gen", "cpu", "assume_a='pos' only"),
        ("float32", "H", "pos", "cpu", "not float32"),
        ("complex128", "T", "pos", "cpu", "Hermitian"),
        ("float64", "H", "pos", "cuda:0", "cuda:0"),
    ],
)
def test_says_what_it_does_not_support(dtype, op, assume_a, device, why):
    sparse = structured(definite("float64"))[0].base
    assert why in cholmod.supports(Symmetric(sparse, op), np.dtype(dtype), device, assume_a)
    assert "only" in cholmod.supports(sparse, np.dtype(dtype), device, "pos")


def test_where_scikit_sparse_is_missing_the_answer_is_how_to_install_it(monkeypatch):
    def absent():
        raise ImportError("No module named 'sksparse'")

    monkeypatch.setattr(cholmod, "library", absent)
    cholmod.missing.cache_clear()
    try:
        a = definite("float64", seed=7)
        with pytest.raises(EngineError, match=r"pip install 'ldiv\[cholmod\]'"):
            ldiv.solve(ldiv.asarray(a), np.ones(40), assume_a="pos", method="cholmod")
        assert ldiv.solve(ldiv.asarray(a), np.ones(40), assume_a="pos").shape == (40,)
    finally:
        cholmod.missing.cache_clear()
