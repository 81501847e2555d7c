"""Matrices made of others: values and gradients against dense formulas, one factorization,
nothing dense, errors.
"""

import itertools
import tracemalloc

import jax.numpy as jnp
import numpy as np
import pytest

import ldiv
from ldiv.engines.registry import choose
from ldiv.structures import (
    Block,
    Dense,
    Diagonal,
    Gram,
    Kronecker,
    Product,
    Scaled,
    Sum,
    Symmetric,
    Triangular,
)

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")

jax.config.update("jax_enable_x64", True)

N = 4
ROWS, COLS = np.array([0, 1, 2, 3, 1, 3]), np.array([0, 1, 2, 3, 0, 2])
LEAVES = {
    "values": ((len(ROWS),), 6.0 * (ROWS == COLS)),
    "diagonal": ((N,), 6.0),
    "matrix": ((N, N), 6.0 * np.eye(N)),
    "thin": ((N, 2), 0.0),
    "row": ((1, N), 0.0),
    "number": ((), 2.0),
}
CASES = {}


def case(*kinds):
    """Registers a function that gives the matrix made of these arrays, and the dense formula in
    torch.
    """

    def register(f):
        CASES[f.__name__] = kinds, f
        return f

    return register


def S(values):
    return ldiv.coo_array((values, (ROWS, COLS)), shape=(N, N))


def D(values):
    return ldiv.Matrix(Diagonal(N), values)


def dense(values):
    a = torch.zeros(*values.shape[:-1], N, N, dtype=values.dtype)
    a[..., ROWS, COLS] = values
    return a


def kron(a, b):
    both = torch.einsum("...ij,...kl->...ikjl", a, b)
    return both.reshape(*both.shape[:-4], a.shape[-2] * b.shape[-2], a.shape[-1] * b.shape[-1])


def gram(l):
    return l @ l.mH


def grid(*rows):
    """[[A, B], [C, 0]], batches broadcast."""
    (a, b), (c,) = rows
    zero = c.new_zeros(c.shape[-2], b.shape[-1])
    top, bottom = (
        torch.cat([x.expand(*a.shape[:-2], *x.shape[-2:]) for x in row], -1)
        for row in ((a, b), (c, zero))
    )
    return torch.cat([top, bottom], -2)


@case("values", "diagonal", "values")
def sum_of_sparse(a, d, b):
    return S(a) + D(d) - S(b).H, lambda: dense(a) + torch.diag_embed(d) - dense(b).mH


@case("matrix", "diagonal")
def array_minus_matrix(a, d):
    return a - D(d), lambda: a - torch.diag_embed(d)


@case("number", "diagonal", "number")
def multiple(c, d, e):
    return -(c * D(d).conj()) / e, lambda: torch.diag_embed(-c * d.conj() / e)


@case("values", "matrix")
def product(a, b):
    return S(a).H @ ldiv.Matrix(Dense(N, N), b), lambda: dense(a).mH @ b


@case("values", "matrix")
def kronecker(a, b):
    return ldiv.kron(S(a), b), lambda: kron(dense(a), b)


@case("values", "diagonal", "values")
def sum_of_kroneckers(a, d, b):
    return ldiv.kron(S(a), D(d)) + ldiv.kron(
        D(d), S(b)
    ), lambda: kron(dense(a), torch.diag_embed(d)) + kron(torch.diag_embed(d), dense(b))


@case("matrix")
def gram_of_triangle(a):
    return ldiv.Gram(a), lambda: gram(a.tril())


@case("values")
def gram_of_sparse_triangle(a):
    return ldiv.Gram(S(a), lower=False).T, lambda: gram(dense(a).triu()).mT


@case("values", "thin", "thin")
def update(a, u, v):
    return S(a) + ldiv.LowRank(u, v), lambda: dense(a) + u @ v.mH


@case("values", "thin", "number", "thin")
def multiple_of_an_update(a, u, c, v):
    return S(a) - c * ldiv.LowRank(u, v) * 3, lambda: dense(a) - 3 * c * u @ v.mH


@case("diagonal", "thin", "number", "thin")
def two_updates(d, u, c, v):
    return 3 * ldiv.LowRank(u, v) + (
        D(d) + c * ldiv.Gram(u, lower=None)
    ), lambda: 3 * u @ v.mH + torch.diag_embed(d) + c * gram(u)


@case("values", "diagonal")
def saddle_point(a, d):
    return ldiv.block_array([[S(a), D(d).H], [D(d), None]]), lambda: grid(
        (dense(a), torch.diag_embed(d).mH), (torch.diag_embed(d),)
    )


@case("matrix", "row", "number")
def bordered(a, r, c):
    return ldiv.block_array([[a, c * ldiv.Matrix(Dense(1, N), r).H], [r, None]]), lambda: grid(
        (a, c * r.mH), (r,)
    )


@case("matrix", "values", "thin", "number")
def three_deep(a, b, u, c):
    inner = S(b) + ldiv.LowRank(u, u)
    return ldiv.kron(
        ldiv.Gram(a).T, inner @ S(b).T
    ) / c, lambda: kron(gram(a.tril()).mT, (dense(b) + gram(u)) @ dense(b).mT) / c


def draw(kinds, dtype, batch=(), seed=0):
    """NumPy arrays of these kinds; the first alone has the batch."""
    rng = np.random.default_rng(seed)
    out = []
    for i, (shape, strong) in enumerate(LEAVES[kind] for kind in kinds):
        x = rng.standard_normal((*(batch if i == 0 else ()), *shape))
        x = x + 1j * rng.standard_normal(x.shape) if np.dtype(dtype).kind == "c" else x
        out.append(np.asarray(x + strong, dtype))
    return out


def problem(name, dtype, batch=()):
    """(build, leaves, b, weights) of a case."""
    kinds, f = CASES[name]
    n = f(*draw(kinds, dtype))[0].shape[-1]
    rng = np.random.default_rng(1)
    return (
        f,
        draw(kinds, dtype, batch),
        rng.standard_normal((n, 2)).astype(dtype),
        rng.standard_normal((n, 2)),
    )


def reference(f, arrays):
    return f(*map(torch.as_tensor, arrays))[1]().resolve_conj().numpy()


BATCHES = [name for name in CASES if CASES[name][0][0] != "number"]


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize(
    ("name", "batch"), [*((name, ()) for name in CASES), *((name, (2,)) for name in BATCHES)]
)
def test_values(name, batch, dtype):
    f, arrays, b, _ = problem(name, dtype, batch)
    A, full = f(*arrays)[0], reference(f, arrays)
    assert A.shape == full.shape
    for op, view, dense in (("N", A, full), ("T", A.T, full.mT), ("H", A.H, full.mT.conj())):
        np.testing.assert_allclose(view @ b, dense @ b, rtol=1e-11, atol=1e-11)
        expected = np.linalg.solve(dense, np.broadcast_to(b, (*batch, *b.shape)))
        np.testing.assert_allclose(ldiv.solve(A, b, trans=op), expected, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(ldiv.solve(view, b), expected, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(
        ldiv.factorized(A).logabsdet(), np.linalg.slogdet(full)[1], rtol=1e-10
    )


def gradients(solve, f, arrays, w):
    """The gradients of Re <w, x> + |x|^2 / 2 in every array, by torch."""
    x = [torch.tensor(a, requires_grad=True) for a in arrays]
    y = solve(f, *x)
    (torch.as_tensor(w).to(y.dtype) * y + y.conj() * y / 2).sum().real.backward()
    return [a.grad.resolve_conj().numpy() for a in x]


def by_ldiv(f, *arrays):
    return ldiv.solve(f(*arrays[:-1])[0], arrays[-1])


def by_torch(f, *arrays):
    return torch.linalg.solve(f(*arrays[:-1])[1](), arrays[-1])


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("name", CASES)
def test_gradients_in_torch(name, dtype):
    batch = (2,) if name in BATCHES else ()
    f, arrays, b, w = problem(name, dtype, batch)
    for ours, theirs in zip(
        gradients(by_ldiv, f, [*arrays, b], w), gradients(by_torch, f, [*arrays, b], w), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-10 * max(1, abs(theirs).max()))


@pytest.mark.parametrize(
    "name",
    [
        "bordered",
        "three_deep",
        *(
            pytest.param(name, marks=pytest.mark.exhaustive)
            for name in ("multiple", "sum_of_kroneckers", "gram_of_sparse_triangle", "two_updates")
        ),
    ],
)
def test_gradients_in_jax(name):
    f, arrays, b, w = problem(name, "complex128")

    @jax.jit
    @jax.grad
    def gradient(arrays):
        y = ldiv.solve(f(*arrays[:-1])[0], arrays[-1])
        return (w * y + y.conj() * y / 2).sum().real

    expected = gradients(by_torch, f, [*arrays, b], w)
    for ours, theirs in zip(
        gradient([jax.numpy.asarray(a) for a in [*arrays, b]]), expected, strict=True
    ):
        np.testing.assert_allclose(
            ours.conj(), theirs, rtol=1e-8, atol=1e-10 * max(1, abs(theirs).max())
        )


@pytest.mark.parametrize(
    "name", ["sum_of_sparse", "multiple", "gram_of_triangle", "update", "bordered"]
)
def test_second_order(name):
    f, arrays, b, _ = problem(name, "float64")
    x = [torch.tensor(a, requires_grad=True) for a in [*arrays, b[:, :1]]]
    assert torch.autograd.gradgradcheck(lambda *x: by_ldiv(f, *x), x)


def test_sparse_border_is_dense():
    """A dense border of a sparse matrix has few entries, and joins the sparse ones."""
    a, u = draw(("values", "thin"), "float64")
    A = ldiv.block_array([[S(a), u], [u.T, None]])
    full = np.block([[S(a).toarray(), u], [u.T, np.zeros((2, 2))]])
    np.testing.assert_allclose(ldiv.solve(A, np.ones(6)), np.linalg.solve(full, np.ones(6)))
    assert engine(A) == engine(S(a))


# -- who solves it, and how often it is factored ------------------------------


def engine(A):
    return choose(A.structure.unview()[0], np.dtype("float64"), "cpu").__name__.rpartition(".")[2]


@pytest.mark.parametrize(
    ("name", "expected", "factorizations"),
    [
        ("sum_of_sparse", "superlu", 1),
        ("sum_of_kroneckers", "superlu", 1),
        ("saddle_point", "superlu", 1),
        ("array_minus_matrix", "lapack", 1),
        ("bordered", "lapack", 1),
        ("multiple", "composed", 0),
        ("product", "composed", 2),
        ("kronecker", "composed", 2),
        ("gram_of_triangle", "composed", 0),
        ("update", "woodbury", 6),  # the matrix once; the capacitance, and those of its views
    ],
)
def test_one_factorization_serves_all(name, expected, factorizations):
    """Every view, the gradient and the second derivative."""
    f, arrays, b, _ = problem(name, "float64")
    x = [torch.tensor(a, requires_grad=True) for a in arrays]
    assert engine(f(*x)[0]) == expected.replace("superlu", engine(S(np.ones(6))))
    loss = sum(ldiv.solve(f(*x)[0]._view(op), torch.tensor(b)).square().sum() for op in "NTCH")
    (g,) = torch.autograd.grad(loss, x[0], create_graph=True)
    g.square().sum().backward()
    assert ldiv.cache_info().factorizations == factorizations


def test_views_are_found_again():
    a, b = S(np.ones(6)).structure, Symmetric(Dense(4, 4))
    for one in (
        Sum((a, a.T)),
        Product((a, b)),
        Scaled((a,)),
        Sum((b, Product((a.H, a)))),
        Sum((Diagonal(4), b)),
    ):
        assert one.T.T is one and one.H.T == one.C and one.T.C is one.H
        assert {id(view.unview()[0]) for view in (one, one.T, one.C, one.H)} == {
            id(one.unview()[0])
        }


def test_hermitian_by_structure():
    h = Symmetric(Dense(4, 4))
    triangle = Triangular(4, True)
    gram = Gram((triangle,))
    block = Block((h, gram), ((0, 0), (1, 1)), (4, 4), (4, 4))
    for one in (
        Sum((h, gram)),
        gram,
        Scaled((Sum((h, gram)),), "real"),
        Kronecker((h, gram)),
        block,
    ):
        assert one.H == one
    for one in (Product((h, gram)), Scaled((h,)), Sum((h, triangle))):
        assert one.H != one
    assert (2 * ldiv.Matrix(h, np.eye(4))).structure.scalar == "real" and (
        2j * ldiv.Matrix(h, np.eye(4))
    ).structure.scalar == "own"


def test_a_gradient_flows_to_the_number():
    c = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    for A in (ldiv.eye_array(2), ldiv.Matrix(Diagonal(2), np.ones(2)), np.eye(2)):
        params = torch.ones(2, dtype=torch.float64)
        A = (
            ldiv.Matrix(A.structure, params)
            if hasattr(A, "structure")
            else ldiv.Matrix(Dense(2, 2), torch.eye(2, dtype=torch.float64))
        )
        (slope,) = torch.autograd.grad(ldiv.solve(c * A, params).sum(), c)
        assert slope == -0.5


def test_what_is_plain_stays_plain():
    A = S(np.ones(6))
    for B in (A + A, A - A.T, 2 * A, A / 3, -A, A @ A, sum([A, A])):
        assert isinstance(B, ldiv.SparseArray)
    for B in (
        A + D(np.ones(4)),
        D(np.ones(4)) - A,
        A @ D(np.ones(4)),
        D(np.ones(4)) @ A,
        sum([D(np.ones(4)), A]),
    ):
        assert not isinstance(B, ldiv.SparseArray)
    assert (1j * D(np.ones(4))).dtype == np.complex128
    assert (2.0 * D(np.ones(4, np.float32))).dtype == np.float32


def test_numpy_pullback():
    """One solve is one rule, whatever an engine applies on the way."""
    f, arrays, b, w = problem("update", "float64")
    _, pullback = ldiv.vjp(ldiv.solve, f(*arrays)[0], b)
    A_bar, _ = pullback(w)
    for ours, theirs in zip(
        A_bar.params[1],
        gradients(lambda f, *x: by_torch(f, *x), f, [*arrays, b], w)[1:3],
        strict=True,
    ):
        assert ours.shape == theirs.shape


def test_a_batch_of_numbers():
    A = S(np.ones(6) + LEAVES["values"][1])
    B = ldiv.Matrix(
        Sum((Scaled((A.structure,)), A.structure)), ((A.data, np.array([1.0, 2.0])), A.data)
    )
    expected = [np.linalg.solve(k * A.toarray(), np.ones((N, 1))) for k in (2, 3)]
    np.testing.assert_allclose(ldiv.solve(B, np.ones((N, 1))), expected)


# -- large matrices -----------------------------------------------------------


def chain(n, dtype=np.float64):
    at = np.arange(n)
    rows, cols = np.concatenate([at, at[1:]]), np.concatenate([at, at[:-1]])
    return ldiv.coo_array(
        (np.concatenate([np.full(n, 4.0), np.full(n - 1, -1.0)]).astype(dtype), (rows, cols)),
        shape=(n, n),
    )


@pytest.mark.parametrize("kind", ["kron", "sum of krons", "sum", "block", "gram", "update"])
def test_nothing_is_dense(kind):
    """n = 20,000: a dense matrix would be 3.2 GB."""
    n = 20_000
    rng = np.random.default_rng(0)
    A = {
        "kron": lambda: ldiv.kron(chain(200), chain(100)),
        "sum of krons": lambda: (
            ldiv.kron(chain(200), ldiv.eye_array(100))
            + ldiv.kron(ldiv.eye_array(200), chain(100).T)
        ),
        "sum": lambda: chain(n) + ldiv.Matrix(Diagonal(n), np.ones(n)),
        "block": lambda: ldiv.block_array(
            [[chain(n // 2), ldiv.eye_array(n // 2)], [-ldiv.eye_array(n // 2), None]]
        ),
        "gram": lambda: ldiv.Gram(chain(n)),
        "update": lambda: (
            chain(n) + ldiv.LowRank(rng.standard_normal((n, 3)), rng.standard_normal((n, 3)) / n)
        ),
    }[kind]()
    b = rng.standard_normal(n)
    tracemalloc.start()
    x, pullback = ldiv.vjp(ldiv.solve, A, b)
    pullback(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_allclose(A @ x, b, atol=1e-9)
    assert peak < 100e6


# -- low-rank updates ---------------------------------------------------------


def nearly_singular(array, tiny):
    """(A, u, v): one singular value of A is tiny, and the update makes it 1 + tiny."""
    q, r = (np.linalg.qr(np.random.default_rng(i).standard_normal((8, 8)))[0] for i in range(2))
    a = ldiv.asarray(q @ np.diag([*np.ones(7), tiny]) @ r)
    return ldiv.coo_array((array(a.data), (a.row, a.col))), array(q[:, 7:]), array(r[7:].T)


def lost(array, tiny=1e-20):
    """(d, u, v): the formula has no digit left, the sum is harmless."""
    return tuple(
        map(
            array,
            (
                np.array([1.0, 2.0, 3.0, tiny]),
                np.array([0.0, 0.0, 0.0, 1.0]),
                np.array([0.3, 0.2, 0.1, 1.3]),
            ),
        )
    )


@pytest.mark.parametrize("tiny", [1e-6, 1e-9, 1e-12])
def test_update_that_cancels_is_refined(tiny):
    A, u, v = nearly_singular(np.asarray, tiny)
    assert engine(A + ldiv.LowRank(u, v)) == "woodbury"
    x = ldiv.solve(A + ldiv.LowRank(u, v), np.ones(8))
    np.testing.assert_allclose((A.toarray() + u @ v.T) @ x, np.ones(8), rtol=1e-13)


@pytest.mark.parametrize("array", [np.asarray, torch.as_tensor, jax.numpy.asarray])
def test_update_that_is_lost_is_refused(array):
    d, u, v = lost(array)
    with pytest.raises(
        ldiv.EngineError,
        match=r"woodbury gives up on this matrix, where it found a backward error .* lapack solves it",
    ):
        ldiv.solve(D(d) + ldiv.LowRank(u, v), array(np.ones(4)), method="woodbury")
    A, u, v = nearly_singular(array, 0.0)
    with pytest.raises(ldiv.SingularMatrixError, match="Woodbury found a singular matrix"):
        ldiv.solve(A + ldiv.LowRank(u, v), array(np.ones(8)))


def test_update_that_is_lost_is_refused_under_jit():
    solve = jax.jit(
        lambda d, u, v: ldiv.solve(D(d) + ldiv.LowRank(u, v), jax.numpy.ones(4), method="woodbury")
    )
    with pytest.raises(jax.errors.JaxRuntimeError, match="Woodbury found a backward error"):
        jax.block_until_ready(solve(*lost(jax.numpy.asarray)))
    d, u, v = lost(jax.numpy.asarray, 1.0)
    np.testing.assert_allclose(
        solve(d, u, v), np.linalg.solve(np.diag(d) + np.outer(u, v), np.ones(4))
    )


def test_update_to_a_singular_matrix():
    A = D(np.array([1.0, 1.0, 1.0, 1.0])) - ldiv.LowRank(np.eye(4)[:, :1], np.eye(4)[:, :1])
    with pytest.raises(ldiv.SingularMatrixError):
        ldiv.solve(A, np.ones(4), method="woodbury")


@pytest.mark.parametrize("rank", [0, 1, N, N + 2])
@pytest.mark.parametrize("of", [S, D])
def test_updates_of_every_rank(of, rank):
    """Determinants, factors and solves, to second order; as many numbers as a dense matrix has are
    factored as one.
    """
    rng = np.random.default_rng(rank)
    shape = (len(ROWS) if of is S else N,)
    leaves = [
        torch.tensor(x, requires_grad=True)
        for x in (5 + rng.random(shape), *rng.uniform(-0.3, 0.3, (2, N, rank)))
    ]
    b = torch.tensor(rng.standard_normal(N))

    def ours(a, u, v):
        A = of(a) * 3 + ldiv.LowRank(u, v)
        _, size = ldiv.slogdet(A)
        return size + b @ ldiv.factorized(A).solve(b) + b @ ldiv.solve(A.T, ldiv.solve(A, b))

    def dense(a, u, v):
        A = 3 * of(a).structure.todense(a) + u @ v.T
        solve = torch.linalg.solve
        return torch.logdet(A) + b @ solve(A, b) + b @ solve(A.T, solve(A, b))

    for n in range(2):
        found, expected = ours(*leaves), dense(*leaves)
        if n:
            found, expected = (
                torch.autograd.grad(y, leaves, create_graph=True) for y in (found, expected)
            )
            torch.testing.assert_close(found, expected)
            found, expected = (
                torch.autograd.grad(sum((g**2).sum() for g in y), leaves) for y in (found, expected)
            )
        torch.testing.assert_close(found, expected)


def test_updates_of_each_other():
    """Both matrices have low rank, and their sum is regular."""
    rng = np.random.default_rng(0)
    u, v = rng.standard_normal((2, N, N))
    A = ldiv.LowRank(u[:, :1], v[:, :1]) + ldiv.LowRank(u[:, 1:], v[:, 1:])
    b = np.ones(N)
    np.testing.assert_allclose(ldiv.slogdet(A), np.linalg.slogdet(u @ v.T))
    for M, dense in ((A, u @ v.T), (A.T, v @ u.T)):
        np.testing.assert_allclose(ldiv.solve(M, b), np.linalg.solve(dense, b))
        np.testing.assert_allclose(ldiv.factorized(M).solve(b), np.linalg.solve(dense, b))


def test_update_of_full_rank_under_jit():
    a, u, v = draw(("values", "matrix", "matrix"), "float64", seed=4)
    slogdet = jax.jit(lambda *x: ldiv.slogdet(S(x[0]) * 3 + ldiv.LowRank(*x[1:])))
    expected = np.linalg.slogdet(3 * S(a).toarray() + u @ v.T)
    np.testing.assert_allclose(slogdet(a, u, v), expected)


def test_update_changed_in_place():
    """The factor keeps its own copy of what it needs later."""
    a, u, v = draw(("values", "thin", "thin"), "float64", seed=3)
    b = np.ones(N)
    old = a.copy()
    first = ldiv.solve(S(a) + ldiv.LowRank(u, v), b)
    a[0] += 1.0
    assert not np.allclose(ldiv.solve(S(a) + ldiv.LowRank(u, v), b), first)
    np.testing.assert_allclose(ldiv.solve(S(old) + ldiv.LowRank(u, v), b), first, rtol=1e-11)


# -- errors -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: D(np.ones(4)) + D(np.ones(4)).structure,
            TypeError,
            "a NumPy, PyTorch or JAX array",
        ),
        (lambda: D(np.ones(4)) + 1.0, ValueError, "a multiple of eye_array"),
        (
            lambda: D(np.ones(4)) + np.ones((3, 3)),
            ValueError,
            r"expected a B of \(4, 4\), got \(3, 3\)",
        ),
        (lambda: torch.tensor(2.0) * D(jnp.ones(4)), TypeError, "all of one framework"),
        (lambda: D(np.ones((2, 4))) + D(np.ones((3, 4))), ValueError, "batch axes that broadcast"),
        (lambda: np.ones(4) * D(np.ones(4)), ValueError, "expected a number"),
        (lambda: "2" * D(np.ones(4)), TypeError, "a NumPy, PyTorch or JAX array"),
        (lambda: D(np.ones(4)) @ ldiv.eye_array(3), ValueError, "a B with 4 rows, got 3"),
        (lambda: ldiv.kron(np.ones(2), np.ones((2, 2))), ValueError, "A: expected a matrix"),
        (lambda: ldiv.block_array([]), ValueError, "rows of equally many blocks"),
        (
            lambda: ldiv.block_array([[np.eye(2)], [np.eye(2), None]]),
            ValueError,
            "rows of equally many blocks",
        ),
        (
            lambda: ldiv.block_array([[np.eye(2), None], [np.eye(2), None]]),
            ValueError,
            "a matrix in every row and column",
        ),
        (
            lambda: ldiv.block_array([[np.eye(2), np.ones((3, 1))], [np.ones((1, 2)), None]]),
            ValueError,
            "block .0, 1.: expected shape",
        ),
        (lambda: ldiv.Gram(np.ones((3, 2))), ValueError, "L: expected a square matrix"),
        (
            lambda: ldiv.LowRank(np.ones((3, 2)), np.ones((3, 1))),
            ValueError,
            "V: expected 2 columns",
        ),
    ],
)
def test_errors(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_singular_parts():
    zero = D(np.zeros(4))
    for A in (
        S(np.ones(6)) @ zero,
        ldiv.kron(S(np.ones(6)), zero),
        ldiv.Gram(np.zeros((4, 4))),
        0.0 * D(np.ones(4)),
    ):
        with pytest.raises(ldiv.SingularMatrixError):
            ldiv.solve(A, np.ones(A.shape[0]))
        with pytest.raises(ldiv.SingularMatrixError):
            ldiv.factorized(A)


@pytest.mark.parametrize("kind", ["kron", "product", "blocks", "sum"])
def test_matrices_without_rows_or_columns(kind):
    """Products of every view, and their gradients, are those of dense arrays without entries."""
    for m, n, k, l in itertools.product((0, 2), repeat=4):
        a = torch.ones(m, n, dtype=torch.float64, requires_grad=True)
        b = torch.ones(k, l, dtype=torch.float64, requires_grad=True)
        if kind == "kron":
            A, dense = ldiv.kron(ldiv.asarray(a), b), torch.kron(a, b)
        elif kind == "product":
            c = torch.ones(n, l, dtype=torch.float64)
            A, dense = ldiv.asarray(a) @ ldiv.Matrix(Dense(n, l), c), a @ c
        elif kind == "blocks":
            A, dense = ldiv.block_array([[a, None], [None, b]]), torch.block_diag(a, b)
        else:
            A, dense = ldiv.asarray(a) + ldiv.LowRank(a, torch.eye(n, dtype=a.dtype)), a + a
        for M, expected in ((A, dense), (A.T, dense.T), (A.H, dense.T)):
            for shape in ((), (3,), (0,)):
                x = torch.ones(M.shape[1], *shape, dtype=torch.float64)
                found, wanted = (
                    (y, *torch.autograd.grad(y.sum(), [a, b], None, True, materialize_grads=True))
                    for y in (M @ x, expected @ x)
                )
                torch.testing.assert_close(found, wanted)
