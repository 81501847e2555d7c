"""In-place operations with shadow buffers: against PyTorch's autograd, out of place, and the
complex step through the operations themselves.
"""

import gc
import tracemalloc

import numpy as np
import pytest

import ldiv
from ldiv.inplace.duplicated import Duplicated
from ldiv.inplace.tape import Tape, autodiff
from ldiv.linalg.products.blas import gemm
from ldiv.testing.cases import Draw

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")

FRAMEWORKS = {
    "numpy": (np.array, np.zeros_like),
    "torch": (lambda x: torch.asarray(np.array(x)), torch.zeros_like),
}
BOTH = pytest.mark.parametrize("framework", FRAMEWORKS)
DTYPES = pytest.mark.parametrize("dtype", ["float64", "complex128"])
OPS = {0: lambda x: x, 1: lambda x: x.mT, 2: lambda x: x.mH}


def duplicate(*xs, framework="numpy"):
    """Each with a shadow of zeros."""
    array, zeros = FRAMEWORKS[framework]
    return [Duplicated(array(x), zeros(array(x))) for x in xs]


def reference(f, xs, w):
    """Gradients of Re <w, f(xs)> by PyTorch, out of place."""
    t = [torch.asarray(np.array(x)).requires_grad_() for x in xs]
    (torch.asarray(w).conj() * f(*t)).real.sum().backward()
    return [
        np.zeros_like(x) if v.grad is None else v.grad.resolve_conj().numpy()
        for x, v in zip(xs, t, strict=True)
    ]


def close(got, expected, tol=1e-12):
    np.testing.assert_allclose(np.asarray(got), np.asarray(expected), rtol=tol, atol=tol)


# -- each operation -----------------------------------------------------------


@pytest.mark.covering(2)
@BOTH
@DTYPES
@pytest.mark.parametrize(("m", "k", "n"), [(3, 3, 3), (7, 3, 5), (1, 1, 1), (0, 2, 3), (2, 0, 3)])
@pytest.mark.parametrize(("trans_a", "trans_b"), [(0, 0), (1, 2), (2, 1), (2, 2)])
def test_gemm(framework, dtype, m, k, n, trans_a, trans_b):
    draw = Draw(dtype)
    xs = [
        draw(),
        draw(*((m, k) if not trans_a else (k, m))),
        draw(*((k, n) if not trans_b else (n, k))),
        draw(),
        draw(m, n),
    ]
    alpha, a, b, beta, c = d = duplicate(*xs, framework=framework)
    w = draw(m, n)
    expected = reference(lambda s, a, b, t, c: s * OPS[trans_a](a) @ OPS[trans_b](b) + t * c, xs, w)
    with Tape() as tape:
        tape.gemm(alpha, a, b, beta, c, trans_a, trans_b)
    close(c.value, gemm(*xs, trans_a, trans_b))
    c.shadow[...] = FRAMEWORKS[framework][0](w)
    tape.reverse()
    for x, g in zip(d, expected, strict=True):
        close(x.shadow, g)
    for x, old in zip((alpha, a, b, beta), xs, strict=False):
        # the caller's arrays are touched in no other way
        np.testing.assert_array_equal(np.asarray(x.value), old)


@pytest.mark.covering(2)
@BOTH
@DTYPES
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("trans", [0, 1, 2])
def test_solve_triangular(framework, dtype, lower, unit, trans):
    draw = Draw(dtype)
    triangle = torch.tril if lower else torch.triu
    for shape, columns in (
        ((3, 3), (2,)),
        ((3, 3), ()),
        ((2, 3, 3), (4,)),
        ((0, 0), (2,)),
        ((3, 3), (0,)),
    ):
        xs = draw(*shape) + 3 * np.eye(shape[-1]), draw(*shape[:-1], *columns)
        w = draw(*xs[1].shape)

        def solve(a, b):
            t = triangle(a, (-1 if lower else 1) * unit) + unit * torch.eye(a.shape[-1])
            return torch.linalg.solve(OPS[trans](t), b)

        a, b = d = duplicate(*xs, framework=framework)
        tape = Tape()
        tape.solve_triangular(a, b, lower=lower, trans=trans, unit_diagonal=unit)
        close(b.value, solve(*map(torch.asarray, xs)))
        b.shadow[...] = FRAMEWORKS[framework][0](w)
        tape.reverse()
        for x, g in zip(d, reference(solve, xs, w), strict=True):
            close(x.shadow, g)


@pytest.mark.covering(2)
@BOTH
@DTYPES
@pytest.mark.parametrize("assume_a", ["gen", "her", "pos"])
def test_solve(framework, dtype, assume_a):
    draw = Draw(dtype)
    for shape, columns in (((3, 3), (2,)), ((3, 3), ()), ((2, 4, 4), (1,))):
        a = draw(*shape)
        a = (
            a + 4 * np.eye(shape[-1])
            if assume_a == "gen"
            else a @ np.conj(a.mT) + np.eye(shape[-1])
        )
        xs, w = (a, draw(*shape[:-1], *columns)), draw(*shape[:-1], *columns)
        part = (lambda x: x) if assume_a == "gen" else (lambda x: (x + x.mH) / 2)
        d = duplicate(*xs, framework=framework)
        tape = Tape()
        tape.solve(*d, assume_a=assume_a)
        close(d[1].value, np.linalg.solve(a, xs[1]))
        d[1].shadow[...] = FRAMEWORKS[framework][0](w)
        before = ldiv.cache_info().factorizations
        tape.reverse()
        assert ldiv.cache_info().factorizations == before, "the adjoint factors nothing"
        for x, g in zip(
            d, reference(lambda a, b, part=part: torch.linalg.solve(part(a), b), xs, w), strict=True
        ):
            close(x.shadow, g, 1e-11)


@pytest.mark.covering(2)
@BOTH
@DTYPES
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 3, 3), (1, 1), (0, 0)])
def test_lu(framework, dtype, shape):
    draw = Draw(dtype)
    xs, w = (draw(*shape),), draw(*shape)

    def packed(a):
        return torch.linalg.lu_factor(a)[0]

    (a,) = duplicate(*xs, framework=framework)
    tape = Tape()
    exchanges = tape.lu(a)
    assert tuple(exchanges.shape) == (*shape[:-2], min(shape[-2:]))
    close(a.value, packed(torch.asarray(xs[0])))
    a.shadow[...] = FRAMEWORKS[framework][0](w)
    tape.reverse()
    close(a.shadow, reference(packed, xs, w)[0], 1e-10)


@pytest.mark.covering(2)
@BOTH
@DTYPES
@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 3), (1, 1), (0, 0)])
def test_cholesky(framework, dtype, shape):
    draw = Draw(dtype)
    root, w = draw(*shape), draw(*shape)
    xs = (root @ np.conj(root.mT) + np.eye(shape[-1]),)
    (a,) = duplicate(*xs, framework=framework)
    a.shadow[...] = FRAMEWORKS[framework][0](w)
    autodiff("cholesky", a)
    close(a.value, np.linalg.cholesky(xs[0]))
    close(a.shadow, reference(lambda x: torch.linalg.cholesky((x + x.mH) / 2), xs, w)[0], 1e-10)


@pytest.mark.covering(2)
@BOTH
@DTYPES
@pytest.mark.parametrize("shape", [(7, 5), (3,), (2, 3, 3), (0, 2)])
def test_axpy_scale_copy(framework, dtype, shape):
    draw = Draw(dtype)
    s, x, y, w = draw(), draw(*shape), draw(*shape), draw(*shape)
    d = duplicate(s, x, y, framework=framework)
    d[2].shadow[...] = FRAMEWORKS[framework][0](w)
    autodiff(Tape.axpy, *d)
    close(d[2].value, y + s * x)
    for v, g in zip(d, reference(lambda s, x, y: y + s * x, (s, x, y), w), strict=True):
        close(v.shadow, g)
    d = duplicate(s, x, framework=framework)
    d[1].shadow[...] = FRAMEWORKS[framework][0](w)
    autodiff(Tape.scale, *d)
    close(d[1].value, s * x)
    for v, g in zip(d, reference(lambda s, x: s * x, (s, x), w), strict=True):
        close(v.shadow, g)
    d = duplicate(x, y, framework=framework)
    d[1].shadow[...] = FRAMEWORKS[framework][0](w)
    autodiff(Tape.copy, *d)
    close(d[1].value, x)
    close(d[0].shadow, w)
    close(d[1].shadow, 0 * w)


# -- the reports --------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(("m", "k", "n"), [(3, 3, 3), (7, 3, 5)])
def test_ten_products_into_one_buffer_are_the_last_one(framework, m, k, n):
    """Square or not: the shadow of what was overwritten is consumed, so that nine of the ten
    products count for nothing.
    """
    draw = Draw("float64")
    xs = draw(m, k), draw(k, n), draw(m, n)
    a, b, r = duplicate(*xs, framework=framework)
    with Tape() as tape:
        for _ in range(10):
            tape.matmul(a, b, out=r)
    r.shadow[...] = 1.0
    tape.reverse()
    close(a.shadow, np.ones((m, n)) @ xs[1].T)
    close(b.shadow, xs[0].T @ np.ones((m, n)))
    assert not np.asarray(r.shadow).any()


@BOTH
def test_the_shadow_of_the_output(framework):
    """Scaled by conj(beta); for beta = 0 exactly zero, whatever it holds."""
    a, b, c = duplicate(*(Draw("complex128")(3, 3) for _ in range(3)), framework=framework)
    c.shadow[...] = 1.0
    autodiff(gemm, 1.0, a, b, 2j, c)
    close(c.shadow, np.full((3, 3), -2j))
    c.shadow[...] = np.nan
    c.value[...] = np.nan
    autodiff(gemm, 1.0, a.value, b.value, 0, c)
    assert not np.asarray(c.shadow).any() and np.isfinite(np.asarray(c.value)).all()


def test_shadows_are_added_to():
    a, b, c = duplicate(*(Draw("float64")(3, 3) for _ in range(3)))
    a.shadow[...] = 7.0
    c.shadow[...] = 1.0
    autodiff("matmul", a, b, c)
    close(a.shadow, 7 + np.ones((3, 3)) @ b.value.T)


def test_one_array_twice():
    a, c = duplicate(*(Draw("complex128")(3, 3) for _ in range(2)))
    w = Draw("complex128", 4)(3, 3)
    c.shadow[...] = w
    autodiff(gemm, 1.0, a, a, 0.0, c, 2, 0)
    close(a.shadow, reference(lambda a: a.mH @ a, (a.value,), w)[0])


LAYOUTS = {
    "C": np.array,
    "F": np.asfortranarray,
    "transposed": lambda x: np.ascontiguousarray(x.T).T,
    "strided": lambda x: np.repeat(np.repeat(x, 2, -1), 3, -2)[::3, ::2],
    "reversed": lambda x: np.ascontiguousarray(x[::-1])[::-1],
    "read-only": lambda x: np.broadcast_to(x, x.shape),
}


@pytest.mark.covering(2)
@DTYPES
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("layout_out", [name for name in LAYOUTS if name != "read-only"])
def test_layouts(dtype, layout, layout_out):
    draw = Draw(dtype)
    a, b, c, t, w = draw(7, 3), draw(3, 5), draw(7, 5), draw(7, 7) + 4 * np.eye(7), draw(7, 5)
    place = LAYOUTS[layout_out]
    shadows = [place(np.zeros_like(x)) for x in (a, b, t)]
    A, B, T = (Duplicated(LAYOUTS[layout](x), s) for x, s in zip((a, b, t), shadows, strict=True))
    C = Duplicated(place(c), place(np.zeros_like(c)))
    with Tape() as tape:
        tape.gemm(2.0, A, B, -1.0, C)
        tape.solve_triangular(T, C, lower=True, trans="H")
    C.shadow[...] = w
    tape.reverse()

    def f(a, b, c, t):
        return torch.linalg.solve(torch.tril(t).mH, 2 * a @ b - c)

    close(C.value, f(*map(torch.asarray, (a, b, c, t))))
    for x, g in zip((A, B, C, T), reference(f, (a, b, c, t), w), strict=True):
        close(x.shadow, g)


# -- sequences ----------------------------------------------------------------


def program(tape, s, a, b, c, t):
    """Everything overwrites something that another operation needs in reverse."""
    tape.gemm(s, a, b, 0.5, c)
    tape.gemm(1.0, c, b, s, a, 0, 1)
    tape.solve_triangular(t, c, lower=True)
    tape.scale(s, t)
    tape.axpy(-2.0, c, b)
    tape.solve(t, b)
    tape.gemm(1.0, a, b, 1.0, c, 1, 2)
    tape.lu(t)
    tape.copy(b, a)
    tape.solve_triangular(t, a, trans="T")
    tape.gemm(s, a, t, s, c)


def by_torch(s, a, b, c, t):
    c = s * a @ b + 0.5 * c
    a = c @ b.mT + s * a
    c = torch.linalg.solve(torch.tril(t), c)
    t = s * t
    b = b - 2.0 * c
    b = torch.linalg.solve(t, b)
    c = a.mT @ b.mH + c
    t = torch.linalg.lu_factor(t)[0]
    a = torch.linalg.solve(torch.triu(t).mT, b)
    return s * a @ t + s * c


@BOTH
@DTYPES
def test_a_sequence_against_torch(framework, dtype):
    draw = Draw(dtype)
    xs = draw(), draw(3, 3), draw(3, 3), draw(3, 3), draw(3, 3) + 2 * np.eye(3)
    expected = reference(by_torch, xs, np.ones((3, 3), dtype))
    d = duplicate(*xs, framework=framework)
    tape = Tape()
    for _ in range(2):  # the second time in used memory
        for x, old in zip(d, xs, strict=True):
            x.value[...] = FRAMEWORKS[framework][0](old)
            x.shadow[...] = 0
        program(tape, *d)
        assert repr(tape) == "Tape(11 operations)"
        d[3].shadow[...] = 1
        results = [np.asarray(x.value).copy() for x in d]
        tape.reverse()
        assert len(tape) == 0
        close(results[3], by_torch(*map(torch.asarray, xs)), 1e-11)
        for x, g, r in zip(d, expected, results, strict=True):
            close(x.shadow, g, 1e-10)
            # the reverse writes to shadows alone
            np.testing.assert_array_equal(np.asarray(x.value), r)


def test_a_sequence_against_the_complex_step():
    draw = Draw("float64")
    xs = draw(), draw(3, 3), draw(3, 3), draw(3, 3), draw(3, 3) + 2 * np.eye(3)
    directions = Draw("float64", 7)
    d = duplicate(*xs)
    tape = Tape()
    real = lambda tape, s, a, b, c, t: (
        tape.gemm(s, a, b, 0.5, c),
        tape.solve_triangular(t, c, lower=True),
        tape.lu(t),
        tape.gemm(1.0, c, t, s, a),
    )
    real(tape, *d)
    d[1].shadow[...] = w = directions(3, 3)
    tape.reverse()
    for _ in range(3):
        e = [directions(*x.shape) for x in xs]
        moved = [x + 1e-30j * v for x, v in zip(xs, e, strict=True)]
        real(Tape(), *moved)
        close(
            sum((x.shadow * v).sum() for x, v in zip(d, e, strict=True)),
            (w * moved[1].imag).sum() / 1e-30,
            1e-11,
        )


def test_parts_of_one_matrix():
    """Blocks of columns share no memory, though they lie between one another; PyTorch counts
    their versions together.
    """
    for framework, (array, zeros) in FRAMEWORKS.items():
        whole, b = array(Draw("float64")(4, 8)), Draw("float64", 1)(4, 4)
        left, right = (Duplicated(whole[:, i : i + 4], zeros(array(b))) for i in (0, 4))
        (B,) = duplicate(b, framework=framework)
        first = torch.asarray(left.value).clone()
        with Tape() as tape:
            tape.matmul(left, B, out=right)
            tape.matmul(right, B, out=left)
        left.shadow[...] = 1.0
        tape.reverse()
        close(B.shadow, reference(lambda b, x=first: x @ b @ b, (b,), np.ones((4, 4)))[0])


# -- no allocation ------------------------------------------------------------


@DTYPES
def test_nothing_is_allocated_once_warm(dtype):
    n, draw = 400, Draw(dtype)
    a, b, c, t = duplicate(draw(n, n), draw(n, n), draw(n, n), draw(n, n) + 100 * np.eye(n))
    start = c.value.copy()
    tape = Tape()

    def step():
        c.value[...] = start
        tape.gemm(0.01, a, b, 0.5, c, 2, 0)
        tape.solve_triangular(t, c, lower=True, trans="H")
        tape.gemm(0.01, a, b, 0.5, c, 0, 2)  # a value of the second step is saved
        c.shadow[...] = 1.0
        tape.reverse()

    for _ in range(2):
        step()
    gc.collect()
    tracemalloc.start()
    try:
        for _ in range(3):
            step()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # NumPy's loops have buffers of 8192 numbers
    assert peak < c.value.nbytes / 8, f"{peak} bytes were allocated, a matrix has {c.value.nbytes}"


# -- what is refused ----------------------------------------------------------


@BOTH
def test_a_change_behind_the_tapes_back(framework):
    a, b, c = duplicate(*(Draw("float64")(3, 3) for _ in range(3)), framework=framework)
    changes = (
        lambda: a.value.__setitem__((0, 0), 5.0),
        lambda: a.value.__setitem__(
            slice(None), FRAMEWORKS[framework][0](np.asarray(a.value).T.copy())
        ),
    )
    for change in changes:
        tape = Tape()
        tape.gemm(1.0, a, b, 0.0, c)
        change()
        c.shadow[...] = 1.0
        with pytest.raises(ValueError, match=r"A, an array of shape \(3, 3\).*lost.*tape.copy"):
            tape.reverse()
        assert not np.asarray(a.shadow).any() and not np.asarray(b.shadow).any(), (
            "an error leaves the shadows as they were"
        )
        with pytest.raises(ValueError, match="lost"):
            tape.gemm(1.0, a, b, 0.0, c)
        c.value[...] = 0.0  # nobody needs the result of a product


@BOTH
def test_errors(framework):
    a, b, c = duplicate(*(Draw("float64")(3, 3) for _ in range(3)), framework=framework)
    tape = Tape()
    with pytest.raises(ValueError, match=r"C: expected a Duplicated, as it depends on A"):
        tape.gemm(1.0, a, b.value, 0.0, c.value)
    with pytest.raises(ValueError, match=r"C: expected memory apart from that of B"):
        tape.matmul(a, c, out=Duplicated(c.value, a.shadow * 1))
    with pytest.raises(ValueError, match=r"shadow of C or A: expected memory of its own"):
        tape.matmul(a, b, out=Duplicated(c.value, a.shadow))
    with pytest.raises(ValueError, match="memory of its own"):
        Duplicated(a.value, a.value)
    with pytest.raises(ValueError, match="kind of its value"):
        Duplicated(a.value, a.shadow[:2])
    with pytest.raises(TypeError, match="float32"):
        tape.matmul(a, b, out=duplicate(np.zeros((3, 3), "f4"), framework=framework)[0])
    with pytest.raises(TypeError, match="real number"):
        tape.gemm(1j, a, b, 0.0, c)
    with pytest.raises(ValueError, match="Check trans_a"):
        tape.matmul(a, b.value[:2], out=c)
    with pytest.raises(ldiv.SingularMatrixError):
        tape.solve_triangular(c.value * 0, b)
    with pytest.raises(ldiv.SingularMatrixError):
        tape.solve(c.value * 0, b)
    with pytest.raises(ldiv.NotPositiveDefiniteError):
        tape.cholesky(duplicate(-np.eye(3), framework=framework)[0])
    with pytest.raises(ValueError, match="one of axpy"):
        autodiff(np.sin, a)
    with pytest.raises(ValueError, match="constants"):
        autodiff(gemm, 1.0, a.value, b.value, 0.0, c.value)
    assert len(tape) == 0


def test_buffers_only():
    x = np.eye(3)
    with pytest.raises(
        ValueError, match="shadow: expected an array that can be written, got a read-only one"
    ):
        Duplicated(x, np.broadcast_to(np.zeros((3, 3)), (3, 3)))
    with pytest.raises(ValueError, match="read-only"):
        Tape().matmul(x, x, out=np.broadcast_to(np.zeros((3, 3)), (3, 3)))
    with pytest.raises(TypeError, match="cannot be overwritten"):
        Duplicated(*map(jax.numpy.asarray, (x, 0 * x)))
    with pytest.raises(ValueError, match="detach"):
        Duplicated(torch.eye(3, requires_grad=True), torch.zeros(3, 3))
    with pytest.raises(TypeError, match="framework"):
        Duplicated(x, torch.zeros(3, 3))


def test_constants_and_failures_leave_no_steps():
    a, b, c = duplicate(*(Draw("float64")(3, 3) for _ in range(3)))
    tape = Tape()
    tape.matmul(a.value, b.value, out=c.value)
    assert len(tape) == 0
    singular = Duplicated(np.zeros((3, 3)), np.zeros((3, 3)))
    with pytest.raises(ldiv.SingularMatrixError):
        tape.solve(singular, b)
    singular.value[...] = np.eye(3)  # nobody needs what it was
    tape.solve(singular, b)
    tape.reverse()
    with tape:
        tape.matmul(a, b, out=c)
    assert len(tape) == 1
    with pytest.raises(ValueError, match="Check trans_a"), tape:
        tape.matmul(a, b.value[:2], out=c)
    assert len(tape) == 0


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (np.eye(3), np.roll(np.eye(3), 1, axis=0)),
        (np.array([[1.0, 2.0], [2.0, 1.0]]), np.array([[2.0, 1.0], [1.0, 2.0]])),
    ],
)
def test_a_permutation_behind_the_tape_is_seen(before, after):
    A, B, C = (
        Duplicated(x.copy(), np.zeros_like(x)) for x in (before, np.eye(len(before)), 0 * before)
    )
    tape = Tape()
    tape.matmul(A, B, out=C)
    A.value[...] = after
    with pytest.raises(ValueError, match="changed since"):
        tape.reverse()


def test_a_shadow_that_is_an_operand_is_refused():
    s = np.ones((2, 2))
    A, C = Duplicated(np.eye(2), s), Duplicated(np.zeros((2, 2)), np.ones((2, 2)))
    with pytest.raises(ValueError, match="memory shared with B"):
        Tape().gemm(1.0, A, s, 0.0, C)


def test_memory_with_a_stride_of_zero_is_not_written():
    thin = np.lib.stride_tricks.as_strided(np.zeros(3), (3, 3), (0, 8))
    with pytest.raises(ValueError, match="stride of 0"):
        ldiv.matmul(np.arange(9.0).reshape(3, 3), np.eye(3), out=thin)
    with pytest.raises(ValueError, match="stride of 0"):
        Duplicated(np.eye(3), thin)


def test_two_readings_of_one_memory_are_two_arrays():
    torch = pytest.importorskip("torch")
    z = torch.randn(3, 3, dtype=torch.complex128)
    a, b = z.conj().imag, z.imag
    A, B, C = (
        Duplicated(x, torch.zeros_like(x)) for x in (a, b, torch.zeros(3, 3, dtype=torch.float64))
    )
    tape = Tape()
    tape.matmul(A, B, out=C)
    C.shadow[...] = torch.eye(3)
    tape.reverse()
    torch.testing.assert_close(A.shadow, z.imag.mT)
    torch.testing.assert_close(B.shadow, -z.imag.mT)
