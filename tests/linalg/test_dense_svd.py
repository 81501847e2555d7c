"""svd, svdvals, pinv, matrix_rank: values and derivatives of every order; no derivative is refused."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch.func import grad, hessian, jacfwd, jacrev

import ldiv

jax.config.update("jax_enable_x64", True)
RNG = np.random.default_rng(3)
SHAPES = [(4, 3), (3, 4), (3, 3), (2, 4, 3)]


def tensor(*shape: int, dtype: Any = torch.float64) -> Any:
    x = RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)
    return torch.asarray(x if dtype.is_complex else x.real).to(dtype)


def smooth(U: Any, s: Any, Vh: Any) -> Any:
    """A loss of all three outputs that does not depend on phases."""
    k = torch.arange(1.0, s.shape[-1] + 1, dtype=s.dtype)
    return (
        (s**3 * k).sum()
        + ((U * (k * s)[..., None, :]) @ Vh).real.sum()
        + (k * (U.abs() ** 4).sum(-2)).sum()
    )


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("shape", SHAPES)
def test_values_and_gradients_are_those_of_torch(shape: tuple[int, ...], dtype: Any) -> None:
    a = tensor(*shape, dtype=dtype).requires_grad_()
    U, s, Vh = ldiv.svd(a)
    torch.testing.assert_close((U * s[..., None, :]) @ Vh, a)
    torch.testing.assert_close(s, torch.linalg.svdvals(a))
    theirs = torch.linalg.svd(a, full_matrices=False)
    for f in (
        smooth,
        lambda U, s, Vh: (s**2).prod(),
        lambda U, s, Vh: (Vh.abs() ** 4)[..., 0, :].sum(),
    ):
        (found,) = torch.autograd.grad(f(U, s, Vh), a, retain_graph=True)
        (wanted,) = torch.autograd.grad(f(*theirs), a, retain_graph=True)
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("shape", SHAPES)
def test_all_modes_agree(shape: tuple[int, ...]) -> None:
    a = tensor(*shape)
    loss = lambda a: (
        smooth(*ldiv.svd(a)) + ldiv.pinv(a).square().sum() + ldiv.svdvals(a).log().sum()
    )
    torch.testing.assert_close(jacfwd(loss)(a), grad(loss)(a))
    H = hessian(loss)(a)
    torch.testing.assert_close(jacrev(jacrev(loss))(a), H)
    torch.testing.assert_close(jacfwd(jacfwd(loss))(a), H)
    step = 1e-6 * tensor(*shape)
    moved = grad(loss)(a + step) - grad(loss)(a - step)
    along = torch.tensordot(H, 2 * step, dims=a.ndim)
    torch.testing.assert_close(moved, along, rtol=1e-5, atol=1e-5 * float(along.abs().max()))


@pytest.mark.exhaustive  # JAX compiles for seconds what the laws of front ends show
def test_jax_and_numpy() -> None:
    a = RNG.standard_normal((4, 3))
    loss = lambda a: (
        (lambda U, s, Vh: (s**3).sum() + (U[:, 0] ** 4).sum() + (Vh[1] ** 4).sum())(*ldiv.svd(a))
        + (ldiv.pinv(a) ** 2).sum()
    )
    wanted = grad(loss)(torch.asarray(a)).numpy()
    np.testing.assert_allclose(jax.jit(jax.grad(loss))(jnp.asarray(a)), wanted, rtol=1e-9)
    (U, _, Vh), pull = ldiv.vjp(ldiv.svd, a)
    (of_s,) = pull((0 * U, np.ones(3), 0 * Vh))
    np.testing.assert_allclose(of_s, U @ Vh, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_pinv_is_that_of_torch(dtype: Any) -> None:
    for shape in SHAPES:
        a = tensor(*shape, dtype=dtype).requires_grad_()
        ours, theirs = ldiv.pinv(a), torch.linalg.pinv(a)
        torch.testing.assert_close(ours, theirs)
        for part in (torch.real, lambda x: x.abs() ** 2):
            (found,) = torch.autograd.grad(part(ours).sum(), a, retain_graph=True)
            (wanted,) = torch.autograd.grad(part(theirs).sum(), a, retain_graph=True)
            torch.testing.assert_close(found, wanted)


def low_rank() -> tuple[Any, Any]:
    return tensor(5, 2), tensor(2, 4)


def test_the_rank_of_tiny_numbers() -> None:
    """The pseudoinverse overflows, and says so under its name; the rank needs none."""
    tiny = 1e-310 * np.array([[1.0, 2.0], [3.0, 4.0]])
    for A in (tiny, torch.asarray(tiny)):
        assert int(ldiv.matrix_rank(A)) == 2
        with pytest.raises(ldiv.LinAlgOverflowError, match="pinv overflows"):
            ldiv.pinv(A)


def test_a_rank_that_is_not_full() -> None:
    B, C = low_rank()
    A = B @ C
    np.testing.assert_allclose(ldiv.pinv(A.numpy()), np.linalg.pinv(A.numpy()), atol=1e-10)
    _, rank = ldiv.pinv(A, return_rank=True)
    assert int(rank) == int(ldiv.matrix_rank(A)) == 2
    with pytest.raises(ldiv.NotDifferentiableError, match="the rank of A is 2, 4 would be full"):
        grad(lambda A: ldiv.pinv(A).sum())(A)
    constant_rank = lambda B: ldiv.pinv(B @ C, on_degenerate="drop").sum()
    torch.testing.assert_close(
        grad(constant_rank)(B), grad(lambda B: torch.linalg.pinv(B @ C).sum())(B)
    )
    with pytest.warns(UserWarning, match="the rank of A is 2"):
        grad(lambda B: ldiv.pinv(B @ C, on_degenerate="warn").sum())(B)


def rotated(values: Any, n: int = 4) -> Any:
    q = [torch.linalg.qr(tensor(m, len(values)))[0] for m in (n, len(values))]
    return (q[0] * torch.tensor(values, dtype=torch.float64)) @ q[1].mT


def test_repeated_singular_values() -> None:
    a = rotated([3.0, 2.0, 2.0])
    U, _, Vh = ldiv.svd(a)
    torch.testing.assert_close(grad(lambda a: ldiv.svdvals(a).sum())(a), U @ Vh)
    project = lambda a: (lambda U, s, Vh: (U[:, 1:] @ U[:, 1:].mT)[0, 1])(*ldiv.svd(a))
    assert bool(torch.isfinite(grad(project)(a)).all())
    for f, said in (
        (lambda a: ldiv.svdvals(a)[1], "single singular values of a repeated singular value, 2"),
        (lambda a: ldiv.svd(a)[0][0, 1] ** 2, "the basis inside a repeated singular value"),
    ):
        with pytest.raises(ldiv.NotDifferentiableError, match=said):
            grad(f)(a)
    dropped = grad(lambda a: ldiv.svd(a, on_degenerate="drop")[0][0, 1] ** 2)(a)
    assert bool(torch.isfinite(dropped).all())


@pytest.mark.parametrize("n", [3, 4])
def test_singular_values_that_vanish(n: int) -> None:
    a = rotated([3.0, 2.0, 0.0], n)
    others = lambda a: (lambda U, s, Vh: (s[:2] ** 2).sum() + (U[0, 0] * Vh[0, 1]))(*ldiv.svd(a))
    assert bool(torch.isfinite(grad(others)(a)).all())
    last = lambda a: ldiv.svd(a)[0][0, 2] ** 2  # of a square matrix what the others leave
    for f in (lambda a: ldiv.svdvals(a).sum(), *([last] if n > 3 else [])):
        with pytest.raises(ldiv.NotDifferentiableError, match="singular value 2 vanishes"):
            grad(f)(a)
    with pytest.raises(ldiv.NotDifferentiableError):
        jacfwd(lambda a: ldiv.svdvals(a).sum())(a)


def test_a_phase_is_arbitrary() -> None:
    a = tensor(3, 3, dtype=torch.complex128).requires_grad_()
    with pytest.raises(ldiv.NotDifferentiableError, match="the phase of singular vector"):
        ldiv.svd(a)[0][0, 0].real.backward()


def test_what_is_refused_is_named() -> None:
    with pytest.raises(ValueError, match="full_matrices: expected False, or a square a, got True"):
        ldiv.svd(np.ones((3, 2)), True)
    assert len(ldiv.svd(np.eye(2), full_matrices=True, lapack_driver="gesvd")) == 3
    with pytest.raises(ValueError, match="finite"):
        ldiv.svdvals(np.full((2, 2), np.nan))
    with pytest.raises(ValueError, match="rtol"):
        ldiv.pinv(np.eye(2), rtol=-1.0)
    with pytest.raises(ValueError, match="tol"):
        ldiv.matrix_rank(np.eye(2), 0.1, atol=0.1)


def test_empty_and_single_precision() -> None:
    assert ldiv.svdvals(np.ones((0, 3))).shape == (0,)
    assert (
        ldiv.pinv(np.ones((0, 3))).shape == (3, 0) and int(ldiv.matrix_rank(np.ones((0, 3)))) == 0
    )
    a = torch.ones((2, 0, 3), requires_grad=True)
    (ldiv.pinv(a).sum() + ldiv.svdvals(a).sum()).backward()
    assert a.grad.shape == (2, 0, 3)
    small = tensor(4, 3).float().requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        smooth(*ldiv.svd(small)).backward()
    assert ldiv.svd(small)[1].dtype == torch.float32


def test_many_steps() -> None:
    """A thousand steps towards orthonormal columns, where all singular values meet."""
    a = tensor(4, 3).requires_grad_()
    optimizer = torch.optim.SGD([a], 0.05)
    for _ in range(300):
        optimizer.zero_grad()
        (ldiv.svdvals(a) - 1).square().sum().backward()
        optimizer.step()
    torch.testing.assert_close(a.mT @ a, torch.eye(3, dtype=torch.float64))


FUNCTIONS: dict[str, Callable[..., Any]] = {"svdvals": ldiv.svdvals, "rank": ldiv.matrix_rank}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_vmap(name: str) -> None:
    a = tensor(3, 4, 3)
    torch.testing.assert_close(torch.vmap(FUNCTIONS[name])(a), FUNCTIONS[name](a))
