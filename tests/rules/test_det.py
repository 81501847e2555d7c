"""The derivatives of a determinant are polynomials: sums over permutations, at singular matrices too."""

import json
import subprocess
import sys
from functools import partial
from itertools import permutations

import numpy as np
import pytest

import ldiv
from ldiv.engines.libraries.native import native

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)

rng = np.random.default_rng(4)


def by_definition(a):
    """Leibniz's formula, in any framework."""
    n = a.shape[-1]
    total = 0
    for p in permutations(range(n)):
        sign = np.linalg.det(np.eye(n)[list(p)]).round()
        term = sign
        for i, j in enumerate(p):
            term = term * a[..., i, j]
        total = total + term
    return total


def slope(f, direction, x):
    return torch.func.jvp(f, (x,), (direction,))[1]


def of_rank(n, rank, dtype):
    factors = rng.standard_normal((2, n, rank))
    if dtype == np.complex128:
        factors = factors + 1j * rng.standard_normal((2, n, rank))
    return factors[0] @ factors[1].T


@pytest.mark.covering(1)
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize(
    "rank", [5, 4, *(pytest.param(r, marks=pytest.mark.exhaustive) for r in (3, 2)), 1]
)
def test_every_order_at_every_rank(rank, dtype):
    a = torch.tensor(of_rank(5, rank, dtype))
    along = [torch.tensor(of_rank(5, 5, dtype)) for _ in range(3)]

    def derivatives(f):
        found = []
        for d in along:
            f = partial(slope, f, d)
            found.append(f(a))
        return found

    every = zip(derivatives(ldiv.det), derivatives(by_definition), (1e-10, 1e-9, 1e-7), strict=True)
    for ours, theirs, rtol in every:
        torch.testing.assert_close(ours, theirs, rtol=rtol, atol=1e-9)
    gradients = []
    for f in (ldiv.det, by_definition):
        x = a.clone().requires_grad_()
        (g,) = torch.autograd.grad(abs(f(x) - 1) ** 2, x, create_graph=True)
        gradients += [(g, torch.autograd.grad((abs(g) ** 2).sum(), x)[0])]
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_fourth_derivative_at_a_rank_below_n_minus_3_is_refused(rank):
    """The derivative exists, and is not 0; three bordering columns do not find it."""
    a, along = torch.tensor(of_rank(5, rank, float)), torch.tensor(of_rank(5, 5, float))
    t, one = (
        torch.zeros((), dtype=torch.float64, requires_grad=True),
        torch.ones((), dtype=torch.float64),
    )
    pushed, polynomial = [lambda t, f=f: f(a + t * along) for f in (ldiv.det, by_definition)]
    pulled = pushed(t)
    for _ in range(3):
        pushed, polynomial = [partial(slope, f, one) for f in (pushed, polynomial)]
        (pulled,) = torch.autograd.grad(pulled, t, create_graph=True)
        assert pushed(t.detach()) == pulled == 0
        assert abs(polynomial(t.detach())) < 1e-9
    if rank == 1:
        assert abs(slope(polynomial, one, t.detach())) > 1
    for fourth in (
        partial(slope, pushed, one, t.detach()),
        partial(torch.autograd.grad, pulled, t),
    ):
        with pytest.raises(ldiv.NotDifferentiableError, match="at most 3, got 4"):
            fourth()


@pytest.mark.parametrize("rank", [3, 4])
def test_singular_vectors_at_right_angles(rank):
    """Left and right null spaces are disjoint: K of the identity and these borders is singular."""
    a = torch.zeros(8, 8, dtype=torch.float64, requires_grad=True)
    (g,) = torch.autograd.grad(ldiv.det(a + torch.eye(8).roll(4, 0) * (torch.arange(8) < rank)), a)
    assert not g.any()


@pytest.mark.parametrize("n", [1, 2, 3])
def test_of_nothing_but_zeros(n):
    a = torch.zeros(n, n, dtype=torch.float64)
    ours, theirs = (torch.func.jacrev(f)(a) for f in (ldiv.det, by_definition))
    torch.testing.assert_close(ours, theirs)


@pytest.mark.exhaustive  # compiles for ten seconds
def test_jax_and_numpy_and_batches():
    a = np.stack([of_rank(4, 3, float), of_rank(4, 4, float), np.ones((4, 4)) * 1e50])
    expected = np.stack([jax.grad(by_definition)(x) for x in a])
    scale = abs(expected).max(axis=(1, 2), keepdims=True) + abs(a).max() ** 3 * 1e-15 * (a > 1e40)
    for found in (
        jax.jit(jax.vmap(jax.grad(ldiv.det)))(a),
        jax.grad(lambda x: ldiv.det(x).sum())(jax.numpy.asarray(a)),
        ldiv.vjp(ldiv.det, a)[1](np.ones(3))[0],
        torch.func.jacrev(lambda x: ldiv.det(x).sum())(torch.tensor(a)),
        torch.vmap(torch.func.grad(ldiv.det))(torch.tensor(a)),
    ):
        np.testing.assert_allclose(np.asarray(found) / scale, expected / scale, atol=1e-10)


@pytest.mark.parametrize("n", [5, 12])
def test_a_rank_that_is_far_too_low(n):
    """The first three derivatives vanish where four singular values do."""
    for a in (np.zeros((n, n)), of_rank(n, n - 4, np.float64), of_rank(n, 1, np.float64)):
        x = torch.tensor(np.stack([a, np.eye(n), a]), requires_grad=True)
        (g,) = torch.autograd.grad(ldiv.det(x).sum(), x, create_graph=True)
        expected = torch.zeros_like(g)
        expected[1] = torch.eye(n)
        torch.testing.assert_close(g.detach(), expected, rtol=1e-12, atol=1e-9)
        (h,) = torch.autograd.grad(g[0].sum(), x)
        assert abs(h).max() < 1e-8
        (each,) = ldiv.vjp(ldiv.det, a)[1](1.0)
        np.testing.assert_allclose(each, 0 * a, atol=1e-9)
        under_vmap = torch.func.vmap(torch.func.grad(ldiv.det))(x.detach())
        torch.testing.assert_close(under_vmap, expected, rtol=1e-12, atol=1e-9)


def test_the_derivative_of_slogdet_names_the_singular_member_of_a_batch():
    a = np.stack([np.eye(3)] * 5)
    a[3] = 1
    x = torch.tensor(a, requires_grad=True)
    with pytest.raises(ldiv.SingularMatrixError, match=r"member \(3,\): the matrix is singular"):
        ldiv.slogdet(x)[1].sum().backward()
    with ldiv.errstate(singular="nan"):
        (g,) = torch.autograd.grad(ldiv.slogdet(x)[1].sum(), x)
    assert torch.isnan(g).any(dim=(1, 2)).tolist() == [False, False, False, True, False]


@pytest.mark.parametrize("bad", [np.inf, np.nan, 0.0])
def test_a_bad_member_leaves_the_others_their_digits(bad):
    """The inverse serves the members that have one under "nan", bordered matrices only the others."""
    good = np.array(
        [
            [4.0, 11.0, -5.0, 9.0],
            [8.0, 3.0, -6.0, 2.0],
            [1.0, 7.0, 5.0, -3.0],
            [6.0, -2.0, 4.0, 8.0],
        ]
    )
    expected = np.linalg.det(good) * np.linalg.inv(good).T
    batch = np.stack([np.full((4, 4), bad), good, good.T, 3 * good])
    t = torch.tensor(batch, requires_grad=True)
    with ldiv.errstate(singular="nan"):
        (g,) = torch.autograd.grad(ldiv.det(t).sum(), t)
    for got, scale in ((g[1], 1), (g[2].mT, 1), (g[3], 27)):
        np.testing.assert_allclose(got, scale * expected, rtol=1e-13, atol=1e-11)
    with ldiv.errstate(singular="nan"):
        second = torch.autograd.functional.hessian(
            lambda x: ldiv.det(torch.stack([torch.tensor(batch[0]), x])).nan_to_num()[1],
            t[1].detach(),
        )
    known = torch.autograd.functional.hessian(torch.linalg.det, t[1].detach())
    np.testing.assert_allclose(second, known, rtol=1e-9, atol=1e-9)


SLOPES = {
    "torch": lambda a: of_each(torch.tensor(a, requires_grad=True)),
    "vmap": lambda a: torch.vmap(torch.func.grad(real_det))(torch.tensor(a)).numpy(),
    "jit": lambda a: np.conj(jax.jit(jax.vmap(jax.grad(real_det)))(a)),
    "jvp": lambda a: jax.jit(jax.vmap(by_tangents))(a),
}


def real_det(x):
    return ldiv.det(x).real


def of_each(x):
    return torch.autograd.grad(real_det(x).sum(), x)[0].numpy()


def by_tangents(a):
    """The gradient by a tangent for each of its numbers."""
    along = lambda e: jax.jvp(real_det, (a,), (e.astype(a.dtype),))[1]
    units = jax.numpy.eye(a.size).reshape(a.size, *a.shape)
    parts = [jax.vmap(along)(units)]
    if a.dtype.kind == "c":
        parts.append(jax.vmap(along)(1j * units) * 1j)
    return sum(parts).reshape(a.shape)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("mode", SLOPES)
def test_borders_lose_no_digits(mode, dtype):
    """The borders of a singular matrix are its singular vectors: random ones may be unlucky."""
    random = np.random.default_rng(0)
    given, expected, bounds = [], [], []
    for _ in range(300 if mode == "torch" else 60):
        a = random.standard_normal((5, 5)) * 10.0 ** random.integers(-2, 3)
        a = a + 1j * random.standard_normal((5, 5)) if dtype == "complex128" else a
        u, s, vh = np.linalg.svd(a)
        a = ((u[:, :4] * s[:4]) @ vh[:4]).astype(dtype)
        found, _, right = np.linalg.svd(a.astype(complex))
        adjugate = np.prod(s[:4]) * np.outer(right[4].conj(), found[:, 4].conj())
        turn = np.linalg.det(found) * np.linalg.det(right)
        given.append(a)
        expected.append((turn * adjugate).conj().T)
        bounds.append(500 * np.finfo(dtype).eps * s[0] / s[3] * abs(adjugate).max())
    found = np.asarray(SLOPES[mode](np.stack(given)))
    assert (abs(found - np.stack(expected)).max(axis=(1, 2)) < bounds).all()


@pytest.mark.covering(1)
@pytest.mark.parametrize("mode", SLOPES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_determinants_below_the_range(mode, dtype):
    """A determinant that vanishes in its dtype has derivatives that need not."""
    unit = np.array([[2.0, 1.0], [1.0, 3.0]])
    tiny = float(np.finfo(dtype).tiny)
    for size in (tiny**0.5 * 2, tiny**0.55, tiny**0.9):
        (found,) = SLOPES[mode]((size * unit[None]).astype(dtype))
        expected = size * np.array([[3.0, -1.0], [-1.0, 2.0]])
        np.testing.assert_allclose(found, expected, rtol=3e3 * np.finfo(dtype).eps)

        with ldiv.errstate(singular="nan"):
            (found,) = SLOPES[mode]((size * unit[None]).astype(dtype))
        np.testing.assert_allclose(found, expected, rtol=3e3 * np.finfo(dtype).eps)


@pytest.mark.parametrize("mode", SLOPES)
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([1e200, 1e-250], [1e-250, 1e200]),
        ([1e30, 1e-30, 1.0], [1e-30, 1e30, 1.0]),
        ([1.7e308], [1.0]),
        ([1e-320], [1.0]),
    ],
)
def test_entries_far_apart(mode, given, expected):
    """Each entry to its own digits where the determinant is in range."""
    (found,) = SLOPES[mode](np.diag(given)[None])
    np.testing.assert_allclose(np.diag(found), expected, rtol=1e-12)


def test_single_precision_keeps_its_digits():
    a = np.diag([1.1e20, 1.1e-20, 1e-12]).astype("f")
    # without compiled calls det is exp(log |det|) in programs, and so are its derivatives
    for mode in ("torch", "vmap", *["jit"] * (native is not None)):
        (found,) = SLOPES[mode](a[None])
        expected = np.float64(a).diagonal().prod() / np.float64(a).diagonal()
        np.testing.assert_allclose(np.diag(found), expected, rtol=1e-6)


@pytest.mark.exhaustive  # compiles for ten seconds
def test_second_derivatives_in_jax():
    """Reverse over reverse and forward over reverse, eager, compiled and in maps, of singular ones too."""
    a = np.stack([np.ones((2, 2)), [[2.0, 1.0], [1.0, 3.0]]])
    expected = np.stack([np.array([[x[1, 1], -x[1, 0]], [-x[0, 1], x[0, 0]]]) for x in a + 1])

    def backward(x):
        fixed = jax.lax.stop_gradient(x + 1)
        return jax.grad(lambda y: (jax.grad(ldiv.det)(y) * fixed).sum())(x)

    def forward(x):
        return jax.jvp(jax.grad(ldiv.det), (x,), (x + 1,))[1]

    for f in (backward, forward):
        for g in (
            jax.vmap(f),
            jax.jit(jax.vmap(f)),
            lambda a, f=f: np.stack([f(jax.numpy.asarray(x)) for x in a]),
        ):
            np.testing.assert_allclose(g(jax.numpy.asarray(a)), expected, atol=1e-12)


def test_second_derivatives_in_jax_need_no_other_framework():
    """Run alone: where autograd is imported NumPy arrays have derivatives, too."""
    program = """
import jax, ldiv, numpy
jax.config.update("jax_enable_x64", True)
weigh = lambda x: (jax.grad(ldiv.det)(x) * jax.numpy.arange(4.0).reshape(2, 2)).sum()
print(numpy.asarray(jax.grad(weigh)(jax.numpy.asarray([[2.0, 1.0], [1.0, 3.0]]))).tolist())
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    np.testing.assert_allclose(json.loads(found.stdout), [[3, -2], [-1, 0]], atol=1e-14)
