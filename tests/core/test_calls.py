"""One call: what is decided once for arguments of a kind, and what each call costs after that."""

from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from frames import frames

import ldiv
from ldiv.core.calls import call as calls
from ldiv.core.rules.rule import bind
from ldiv.derivatives import numpy_record
from ldiv.engines.libraries import native
from ldiv.rules.solve import Solve
from ldiv.structures.dense import dense

pytestmark = pytest.mark.skipif(native.native is None, reason=native.why_not)
RNG = np.random.default_rng(0)
A = RNG.standard_normal((4, 4)) + 8 * np.eye(4)
B = RNG.standard_normal(4)
S = (A @ A.T + (A @ A.T).T) / 2
ROWS, COLS = np.nonzero(np.abs(np.subtract.outer(np.arange(6), np.arange(6))) <= 1)
VALUES, B6 = RNG.standard_normal(len(ROWS)) + 4 * (ROWS == COLS), RNG.standard_normal(6)


def sparse(values: Any, b: Any, **options: Any) -> Any:
    return ldiv.solve(ldiv.coo_array((values, (ROWS, COLS)), shape=(6, 6)), b, **options)


CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "solve": (ldiv.solve, (A, B)),
    "solve T": (lambda a, b: ldiv.solve(a, b, trans="T"), (A, B)),
    "solve pos": (lambda a, b: ldiv.solve(a, b, assume_a="pos"), (S, B)),
    "solve block": (ldiv.solve, (A, RNG.standard_normal((4, 2)))),
    "solve batch": (ldiv.solve, (np.stack([A, S]), RNG.standard_normal((2, 4, 1)))),
    "solve her": (lambda a, b: ldiv.solve(a, b, assume_a="her"), (A @ A.T, B)),  # up to rounding
    "triangle": (lambda a, b: ldiv.solve_triangular(a, b, lower=True), (A, B)),
    "triangle T": (lambda a, b: ldiv.solve_triangular(a, b, trans="T"), (A, B)),
    "triangle unit": (
        lambda a, b: ldiv.solve_triangular(a, b, unit_diagonal=True),
        (np.stack([A, S]) / 9, RNG.standard_normal((2, 4, 3))),
    ),
    "cholesky": (ldiv.cholesky, (np.stack([A @ A.T, S + 1]),)),
    "cholesky upper": (lambda a: ldiv.cholesky(a, lower=False), (S,)),
    "lu": (lambda a: ldiv.lu_factor(a)[0], (np.stack([A, S]),)),
    "slogdet": (lambda a: ldiv.slogdet(a)[1], (A,)),
    "det": (ldiv.det, (np.stack([A, S]),)),
    "inverse": (ldiv.inv, (np.stack([A, S]),)),
    "inverse pos": (lambda a: ldiv.inv(a, assume_a="pos"), (S,)),
    "eigh": (lambda a: ldiv.eigh(a)[1], (np.stack([S, A + A.T]),)),
    "eigvalsh": (ldiv.eigvalsh, (S,)),
    "svd": (lambda a: ldiv.svd(a)[0], (A[:3],)),
    "svdvals": (ldiv.svdvals, (np.stack([A, S]),)),
    "logdet": (ldiv.logdet, (S,)),
    "logdet pos": (lambda a: ldiv.logdet(a, assume_a="pos"), (S,)),
    "sparse": (sparse, (VALUES, B6)),
    "sparse T": (lambda v, b: sparse(v, b, trans="T"), (VALUES, B6)),
    "sparse block": (sparse, (VALUES, RNG.standard_normal((6, 3)))),
    "sparse batch": (sparse, (np.stack([VALUES, 2 * VALUES]), RNG.standard_normal((2, 6, 1)))),
}
each = pytest.mark.parametrize("name", CALLS)


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The calls that were planned, since none of their kind had come before."""
    found: list[Any] = []

    def remember(table: Any, key: Any, *rest: Any, own: Any = calls._remember) -> None:
        found.append(key)
        own(table, key, *rest)

    monkeypatch.setattr(calls, "_remember", remember)
    return found


def gradients(f: Callable[..., Any], xs: tuple[Any, ...]) -> list[Any]:
    given = [torch.tensor(x, requires_grad=True) for x in xs]
    y = f(*given)
    first = torch.autograd.grad((y * y).sum(), given, create_graph=True)
    second = torch.autograd.grad(sum((g * g).sum() for g in first), given)
    return [x.detach().numpy() for x in (y, *first, *second)]


@each
def test_a_kind_is_planned_once(name: str, planned: list[Any]) -> None:
    f, xs = CALLS[name]
    ldiv.clear_cache()
    first, first_gradients = f(*xs), gradients(f, xs)
    count = len(planned)
    assert 1 <= count <= 3  # of NumPy, of PyTorch; that of a sparse matrix goes with its pattern
    np.testing.assert_array_equal(f(*xs), first)
    for x, y in zip(gradients(f, xs), first_gradients, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-14)
    assert len(planned) == count
    flipped = tuple(x.mT.copy().mT if x.ndim > 1 else x for x in xs)
    np.testing.assert_allclose(f(*flipped), first, rtol=1e-14)
    np.testing.assert_allclose(f(*map(torch.from_numpy, flipped)).numpy(), first, rtol=1e-14)
    assert len(planned) == count


@each
def test_the_second_call_costs_what_the_third_costs(name: str) -> None:
    f, xs = CALLS[name]
    for given in (xs, tuple(map(torch.tensor, xs))):
        ldiv.clear_cache()
        f(*given)
        f(*given)
        ldiv.clear_cache()  # factors, too: none of equal values is found again
        counts = [frames(lambda given=given, i=i: f(given[0] + i, *given[1:])) for i in range(3)]  # type: ignore[misc]
        assert counts[1] <= 1.1 * counts[2] + 2, counts


class Empty(torch.autograd.Function):
    """A function that computes nothing, and whose derivatives apply it once more, as those of rules."""

    @staticmethod
    def forward(a: Any, b: Any) -> Any:
        return b.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs, output)
        ctx.save_for_forward(*inputs, output)

    @staticmethod
    def backward(ctx: Any, x_bar: Any) -> Any:  # type: ignore[override]
        a, _, x = ctx.saved_tensors
        lam = Empty.apply(a, x_bar)  # type: ignore[no-untyped-call]
        return -lam[..., None] * x[..., None, :], lam

    @staticmethod
    def jvp(ctx: Any, da: Any, db: Any) -> Any:  # type: ignore[override]
        a, _, x = ctx.saved_tensors
        return Empty.apply(a, db - (da @ x[..., None])[..., 0])  # type: ignore[no-untyped-call]

    @staticmethod
    def vmap(info: Any, dims: Any, a: Any, b: Any) -> Any:
        return Empty.apply(a.movedim(dims[0], 0), b.movedim(dims[1], 0)), 0  # type: ignore[no-untyped-call]


def test_frames_of_a_call() -> None:
    """A call of a kind that came before enters few functions; under torch.func no more than an
    autograd.Function does which computes nothing.
    """
    pair = torch.tensor(A), torch.tensor(B)
    a, b = (x.clone().requires_grad_() for x in pair)
    y, s = ldiv.solve(a, b), torch.tensor(S, requires_grad=True)

    def backward() -> Any:
        return torch.autograd.grad(y, (a, b), pair[1], retain_graph=True)

    bounds: dict[int, Callable[[], Any]] = {
        34: lambda: ldiv.solve(A, B),
        40: lambda: ldiv.solve(*pair),
        45: lambda: ldiv.solve(a, b),
        46: backward,  # 26 of them PyTorch's
        47: lambda: ldiv.inv(a),
        49: lambda: ldiv.det(a),
        77: lambda: ldiv.eigh(s),
        82: lambda: ldiv.eigvalsh(s),
        81: lambda: ldiv.svdvals(a),
    }
    for bound, call in bounds.items():
        call(), call()
        assert frames(call) <= bound
    many = tuple(torch.stack([x] * 3) for x in pair)
    modes: list[Callable[[Any], Any]] = [
        lambda f: torch.vmap(f)(*many),
        lambda f: torch.func.jvp(f, pair, pair),
        lambda f: torch.func.grad(lambda a, b: f(a, b).sum(), argnums=(0, 1))(*pair),
        lambda f: torch.vmap(torch.func.grad(lambda a, b: f(a, b).sum(), argnums=(0, 1)))(*many),
    ]
    for mode in modes:
        counts = []
        for f in (ldiv.solve, Empty.apply):
            mode(f), mode(f)
            counts.append(frames(lambda f=f, mode=mode: mode(f)))  # type: ignore[misc]
        assert counts[0] <= counts[1] + 60, counts


def test_sizes_of_batches_and_columns_are_no_part_of_the_kind(planned: list[Any]) -> None:
    for as_array in (np.asarray, torch.tensor):
        ldiv.clear_cache()
        planned.clear()
        for k in range(1, 200):
            ldiv.solve(as_array(A), as_array(np.ones((4, k))))
        for k in range(1, 20):
            ldiv.solve(as_array(np.stack([A] * k)), as_array(np.ones((k, 4, 2))))
        assert len(planned) == 2
        with pytest.raises(ValueError, match="batch"):
            ldiv.solve(as_array(np.stack([A] * 3)), as_array(np.ones((2, 4, 2))))
        with pytest.raises(ValueError, match="4"):
            ldiv.solve(as_array(A), as_array(np.ones((3, 2))))


@pytest.mark.parametrize(
    "dtypes", [("d", "i"), ("d", "f"), ("f", "d"), ("D", "d"), ("i", "d"), ("d", "D")]
)
def test_dtypes_are_converted_as_the_planner_did(dtypes: tuple[str, str], planned: Any) -> None:
    a, b = (np.round(8 * x).astype(d) for x, d in zip((A, B), dtypes, strict=True))
    expected = np.linalg.solve(a, b)
    for as_array in (np.asarray, torch.tensor):
        first, count = ldiv.solve(as_array(a), as_array(b)), len(planned)
        again = ldiv.solve(as_array(a), as_array(b))
        assert len(planned) == count and again.dtype == first.dtype
        np.testing.assert_allclose(np.asarray(again), expected, rtol=1e-5)


@pytest.mark.xfail(strict=True, reason="the calls of a pattern refer to it, until gc comes")
def test_a_pattern_that_nobody_has_is_freed_at_once() -> None:
    gc.collect()
    gc.disable()
    try:
        A6 = ldiv.coo_array((VALUES, (ROWS + 0, COLS + 0)), shape=(7, 7)) + ldiv.eye_array(7)
        for _ in range(3):
            ldiv.solve(A6, np.ones(7))
        gone = weakref.ref(A6.structure)
        ldiv.clear_cache()
        del A6
        assert gone() is None
    finally:
        gc.enable()


@each
def test_who_looks_on_gets_the_same_numbers(name: str) -> None:
    f, xs = CALLS[name]
    given = tuple(map(torch.tensor, xs))
    y, dxs = f(*given), tuple(map(torch.ones_like, given))
    y = f(*given)
    moved, tangent = torch.func.jvp(f, given, dxs)
    torch.testing.assert_close(moved, y)
    _, pull = torch.func.vjp(f, *given)
    product = sum((g * d).sum() for g, d in zip(pull(torch.ones_like(y)), dxs, strict=True))
    torch.testing.assert_close(tangent.sum(), product)
    many = tuple(torch.stack([x, 2 * x]) for x in given)
    torch.testing.assert_close(torch.vmap(f)(*many)[0], y)
    with torch.inference_mode():
        torch.testing.assert_close(f(*given), y)
    with torch.autograd.graph.save_on_cpu():
        x = given[0].clone().requires_grad_()
        z = f(x, *given[1:])
    torch.autograd.grad(z.sum(), x)
    if name == "cholesky upper":  # its adjoint is no rule, which NumPy does not record
        return
    back, pull_back = ldiv.vjp(f, *xs)
    np.testing.assert_allclose(back, y.numpy(), rtol=1e-14)
    assert len(pull_back(np.ones_like(back))) == len(xs)


def test_errors_are_those_of_the_first_call() -> None:
    for as_array in (np.asarray, torch.tensor):
        ldiv.solve(as_array(A), as_array(B))
        ldiv.solve(as_array(A), as_array(B))
        with pytest.raises(ldiv.SingularMatrixError):
            ldiv.solve(as_array(np.ones((4, 4))), as_array(B))
        with pytest.raises(ValueError, match="finite"):
            ldiv.solve(as_array(A), as_array(B * np.nan))
        ldiv.solve(as_array(S), as_array(B), assume_a="pos")
        with pytest.raises(ldiv.NotPositiveDefiniteError):
            ldiv.solve(as_array(-S), as_array(B), assume_a="pos")
        ldiv.cholesky(as_array(S))
        with pytest.raises(ldiv.NotPositiveDefiniteError):
            ldiv.cholesky(as_array(-S))
        with pytest.raises(ldiv.NotSymmetricError):
            ldiv.cholesky(as_array(A))
        ldiv.solve_triangular(as_array(A), as_array(B))
        with pytest.raises(ldiv.SingularMatrixError):
            ldiv.solve_triangular(as_array(A - np.diag(np.diag(A))), as_array(B))
        below = np.tril(A) + np.triu(np.full((4, 4), np.nan), 1)
        ldiv.solve_triangular(as_array(below), as_array(B), lower=True)
        with pytest.raises(ValueError, match="finite"):
            ldiv.solve_triangular(as_array(below), as_array(B))
        with pytest.raises(ValueError, match="positive"):
            ldiv.logdet(as_array(S)), ldiv.logdet(as_array(np.diag([-1.0, 1, 1, 1])))
        ldiv.solve(as_array(A), as_array(B), trans=0)
        with pytest.raises(ValueError, match="trans"):
            ldiv.solve(as_array(A), as_array(B), trans=False)


def test_a_change_between_the_passes_is_noticed() -> None:
    for f, xs in CALLS.values():
        given = [torch.tensor(x, requires_grad=True) for x in xs]
        f(*given)
        y = f(*given).sum()
        with torch.no_grad():
            given[0] += 1
        with pytest.raises(RuntimeError, match="inplace"):
            y.backward()


def test_equal_values_share_a_factor_which_goes_with_the_graph() -> None:
    a, b = torch.tensor(A, requires_grad=True), torch.tensor(B)
    ldiv.slogdet(a), ldiv.solve(a, b)
    before = ldiv.cache_info()
    y = ldiv.slogdet(a)[1] + ldiv.solve(a, b).sum() + ldiv.solve(a, 2 * b).sum()
    now = ldiv.cache_info()
    assert (now.factorizations - before.factorizations, now.entries) == (1, before.entries + 1)
    y.backward()
    assert ldiv.cache_info().entries == before.entries


def test_values_alone_are_taken() -> None:
    """Values before conjugation or negation, views, and zeros without memory are not taken."""
    a = torch.tensor(A + 1j * A.T)
    b = torch.tensor(B + 1j * B[::-1].copy())
    x = ldiv.solve(a, b)
    torch.testing.assert_close(ldiv.solve(a, b), x)
    torch.testing.assert_close(ldiv.solve(a.conj(), b.conj()), x.conj())
    whole = torch.tensor(A)
    ldiv.solve(whole, torch.tensor(B))
    imaginary = torch.tensor(B - 1j * B).conj().imag
    assert imaginary.is_neg()
    torch.testing.assert_close(ldiv.solve(whole, imaginary), torch.tensor(np.linalg.solve(A, B)))
    zeros = torch._efficientzerotensor(4, dtype=torch.float64)
    assert not ldiv.solve(whole, zeros).any()


L = np.linalg.cholesky(S)
PULLED: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "solve": (ldiv.solve, (A, B)),
    "one matrix, many": (ldiv.solve, (A, RNG.standard_normal((3, 4, 2)))),
    "complex": (
        ldiv.solve,
        (np.stack([A + 1j * S, S + 1j * A]), RNG.standard_normal((2, 4, 1)) + 0j),
    ),
    "single": (ldiv.solve, (A.astype("f"), B.astype("f"))),
    "columns": (ldiv.solve, (A.T.copy().T, B)),
    "triangle": (ldiv.solve_triangular, (A, B)),
    "cholesky": (ldiv.cholesky, (S,)),
    "slogdet": (ldiv.slogdet, (A,)),
    "logdet": (ldiv.logdet, (S,)),
    "divergence": (ldiv.gaussian_kl, (2 * L, L)),
}


@pytest.mark.parametrize("name", PULLED)
def test_pullbacks_of_numpy_are_those_of_a_record(name: str) -> None:
    f, xs = PULLED[name]
    f(*xs)  # the kind is known
    y, pull = ldiv.vjp(lambda *xs: f(*xs), *xs)
    several = isinstance(y, tuple)
    bars = tuple(np.cos(v) for v in y) if several else (np.cos(y),)
    expected = pull(bars if several else bars[0])
    given = tuple(x.copy() for x in xs)
    assert numpy_record.short_vjp(f, given) is not None
    z, short_pull = ldiv.vjp(f, *given)
    for x in given:
        x[...] = np.nan
    for v, w in zip(z if several else (z,), y if several else (y,), strict=True):
        np.testing.assert_array_equal(v, w)
        if v.ndim:
            v[...] = np.nan
    strided = tuple(np.repeat(bar[..., None], 2, -1)[..., 0] for bar in bars)
    for again in (bars, strided):
        found = short_pull(again if several else again[0])
        for g, h, x in zip(found, expected, xs, strict=True):
            assert g.shape == x.shape and g.dtype == x.dtype
            np.testing.assert_allclose(
                g, h, rtol=1e-5 if g.dtype.char == "f" else 1e-12, atol=1e-13
            )


def test_pullbacks_of_numpy_look_at_what_they_are_given() -> None:
    ldiv.solve(A, B)
    _, pull = ldiv.vjp(ldiv.solve, A, B)
    with pytest.raises(ValueError, match="shape"):
        pull(np.ones(3))
    with pytest.raises(TypeError, match="real"):
        pull(1j * B)
    with pytest.raises(ValueError, match="finite"):
        pull(B * np.nan)
    np.testing.assert_array_equal(pull(list(B))[1], pull(B)[1])
    with pytest.raises(ldiv.SingularMatrixError):
        ldiv.vjp(ldiv.solve, np.ones((4, 4)), B)
    with pytest.raises(ValueError, match="finite"):
        ldiv.vjp(ldiv.solve, A, B * np.nan)
    with ldiv.errstate(singular="nan"):
        y, pull = ldiv.vjp(ldiv.solve, np.ones((4, 4)), B)
        assert np.isnan(y).all() and np.isnan(pull(B)[0]).all()


def test_pullbacks_are_in_the_dtypes_of_the_arguments() -> None:
    for a, b in ((A + 1j * S, B), (A, B.astype("f")), (A, B + 1j * B)):
        for _ in range(2):
            _, pull = ldiv.vjp(ldiv.solve, a, b)
            bars = pull(np.ones(4, np.result_type(a, b)))
            assert [x.dtype for x in bars] == [a.dtype, b.dtype]
            tensors = [torch.tensor(x, requires_grad=True) for x in (a, b)]
            y = ldiv.solve(*tensors)
            for x, bar in zip(
                torch.autograd.grad(y, tensors, torch.ones_like(y)), bars, strict=True
            ):
                np.testing.assert_allclose(bar, x.numpy(), rtol=1e-5, atol=1e-7)


def test_a_function_that_looks_like_ours_is_its_own() -> None:
    @functools.wraps(ldiv.solve)
    def half(a: Any, b: Any) -> Any:
        return ldiv.solve(a, b, trans="T")

    ldiv.solve(A, B), half(A, B)
    x, pull = ldiv.vjp(half, A, B)
    np.testing.assert_allclose(x, np.linalg.solve(A.T, B), rtol=1e-12)
    np.testing.assert_allclose(pull(B)[1], np.linalg.solve(A, B), rtol=1e-12)


def test_tensors_of_a_transform_that_has_ended_are_plain_again() -> None:
    left: list[torch.Tensor] = []

    def f(x: torch.Tensor) -> torch.Tensor:
        left.append(x * 1)
        return (x * x).sum()

    torch.func.grad(f)(torch.tensor(A))
    b = torch.tensor(B, requires_grad=True)
    ldiv.solve(torch.tensor(A), b)  # the kind is known
    x = ldiv.solve(left[0], b)
    torch.testing.assert_close(x, torch.tensor(np.linalg.solve(A, B)))
    (b_bar,) = torch.autograd.grad(x.sum(), b)
    torch.testing.assert_close(b_bar, torch.tensor(np.linalg.solve(A.T, np.ones(4))))


class Twice:
    """A class beside a rule, which changes what it does."""

    def kernel(self, *args: Any) -> tuple[Any, ...]:
        return tuple(2 * y for y in super().kernel(*args))  # type: ignore[misc]


class Own(Solve):
    def kernel(self, *args: Any) -> tuple[Any, ...]:
        return tuple(2 * y for y in super().kernel(*args))


class Inherited(Twice, Solve):
    pass


@pytest.mark.parametrize("made", [Own, Inherited])
def test_a_rule_with_another_kernel_is_not_compiled(made: type[Solve]) -> None:
    assert Solve(dense(4, 4)).compiled.taking(A, B[:, None])  # type: ignore[union-attr]
    rule = made(dense(4, 4))
    assert rule.compiled is None
    found = bind(rule, torch.tensor(A), torch.tensor(B[:, None]))[0]
    np.testing.assert_allclose(found[:, 0], 2 * np.linalg.solve(A, B), rtol=1e-12)
