"""Options of `least_squares` that SciPy's has, too: `jac`, `tol`, `info`, `verbose`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import ldiv
from ldiv.derivatives.normal_equations import DenseEquations, SparseEquations

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
jnp = jax.numpy

TIMES = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
DATA = np.array([2.0, 1.2, 0.7, 0.9, 0.31, 0.17])
WHOLE = (np.repeat(np.arange(6), 2), np.tile(np.arange(2), 6))


def decay(xp: Any, x: Any, y: Any) -> Any:
    return x[0] * xp.exp(-x[1] * xp.asarray(TIMES)) - y


def slopes(xp: Any, x: Any, y: Any) -> Any:
    falling = xp.exp(-x[1] * xp.asarray(TIMES))
    return xp.stack([falling, -xp.asarray(TIMES) * x[0] * falling], 1)


def fit(xp: Any, **options: Any) -> Callable[[Any], Any]:
    x0 = xp.asarray(np.ones(2))
    if (jac := options.get("jac")) is not None:
        options["jac"] = partial(jac, xp)
    return lambda y: ldiv.least_squares(partial(decay, xp), x0, y, **options)


def sparse(xp: Any, x: Any, y: Any) -> Any:
    return ldiv.asarray(slopes(xp, x, y))


# -- jac ------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"jac": slopes}, {"jac": sparse, "pattern": WHOLE}])
@pytest.mark.parametrize("method", ["lm", "gauss-newton"])
def test_a_jacobian_that_is_given_leads_to_the_same_minimum(
    options: dict[str, Any], method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    y = torch.tensor(DATA)
    expected = fit(torch)(y), torch.func.jacrev(fit(torch))(y)
    for equations in (DenseEquations, SparseEquations):
        monkeypatch.setattr(equations, "jacobian", None)  # nobody differentiates the residual
    found = fit(torch, method=method, **options)
    torch.testing.assert_close(found(y), expected[0], rtol=1e-10, atol=0)
    torch.testing.assert_close(torch.func.jacrev(found)(y), expected[1], rtol=1e-8, atol=1e-10)
    ys = torch.stack([y, y + 0.01])
    torch.testing.assert_close(torch.func.vmap(found)(ys)[0], expected[0], rtol=1e-10, atol=0)


def test_a_jacobian_that_is_given_in_programs() -> None:
    found = fit(jnp, jac=slopes)
    expected = jax.jacrev(fit(jnp))(jnp.asarray(DATA))
    np.testing.assert_allclose(jax.jit(jax.jacrev(found))(DATA), expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"jac": lambda xp, x, y: 2 * slopes(xp, x, y)}, "jac: expected the derivative"),
        ({"jac": lambda xp, x, y: slopes(xp, x, y).T}, r"jac: expected an array \(6, 2\)"),
        ({"jac": lambda xp, x, y: 1.0}, r"jac: expected an array \(6, 2\)"),
        ({"jac": sparse, "pattern": (WHOLE[0][1:], WHOLE[1][1:])}, "jac: expected the derivative"),
    ],
)
def test_a_jacobian_that_is_none_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        fit(torch, **options)(torch.tensor(DATA))
    with pytest.raises(TypeError, match="jac"):
        ldiv.least_squares(partial(decay, torch), torch.ones(2), torch.tensor(DATA), jac=1)  # type: ignore[call-overload]


def test_a_column_of_zeros_is_a_derivative() -> None:
    """Rounding of the products is allowed for."""
    x = ldiv.least_squares(
        lambda x: torch.cat([x - 1e8, x[:1] * 0]),
        torch.zeros(2, dtype=torch.float64),
        jac=lambda x: torch.eye(3, 2, dtype=torch.float64),
    )
    torch.testing.assert_close(x, torch.full((2,), 1e8, dtype=torch.float64))


def test_a_jacobian_has_real_floating_values() -> None:
    for dtype in (torch.int64, torch.complex128):
        with pytest.raises(TypeError, match="jac: expected real floating values"):
            fit(torch, jac=lambda xp, x, y, d=dtype: slopes(xp, x, y).to(d))(torch.tensor(DATA))


@pytest.mark.parametrize("options", [{"info": True}, {"verbose": 2, "info": True}])
def test_no_unknowns(options: dict[str, Any]) -> None:
    none = torch.zeros(0, dtype=torch.float64)
    x, info = ldiv.least_squares(
        lambda x: torch.ones(2, dtype=x.dtype) + x.sum(),
        none,
        jac=lambda x: torch.zeros(2, 0, dtype=x.dtype),
        **options,
    )
    assert x.shape == (0,) and info.steps == 0 and info.costs.tolist() == [1.0]
    assert info.newton.condition is None
    assert ldiv.root(lambda x: x, none, info=True)[1].condition is None


# -- tol ------------------------------------------------------------------------


def test_a_residual_of_fewer_digits_needs_a_larger_tol() -> None:
    """Noise of 1e-5 leaves Newton's method steps of that size."""
    y, x0 = torch.tensor(DATA), torch.ones(2, dtype=torch.float64)

    def noisy(x: Any, y: Any) -> Any:
        return decay(torch, x, y) + 1e-5 * torch.sin(1e9 * x.detach()[0] * torch.tensor(1 + TIMES))

    x = ldiv.least_squares(noisy, x0, y, tol=1e-2)
    torch.testing.assert_close(x, fit(torch)(y), rtol=1e-3, atol=0)
    with pytest.raises(ldiv.ConvergenceError):
        ldiv.least_squares(noisy, x0, y)
    for tol in (0.0, -1.0, np.nan):
        with pytest.raises(ValueError, match="tol"):
            fit(torch, tol=tol)(y)


# -- info and verbose -------------------------------------------------------------


@pytest.mark.parametrize("xp", [torch, jnp])
def test_info_is_of_the_steps(xp: Any) -> None:
    x, info = fit(xp, info=True)(xp.asarray(DATA))
    np.testing.assert_allclose(np.asarray(x), np.asarray(fit(xp)(xp.asarray(DATA))), rtol=1e-12)
    start = decay(np, np.ones(2), DATA), slopes(np, np.ones(2), DATA)
    assert len(info.costs) == info.steps + 1 == len(info.optimality) + 1
    assert (np.diff(info.costs) <= 0).all()
    np.testing.assert_allclose(info.costs[0], start[0] @ start[0] / 2, rtol=1e-12)
    np.testing.assert_allclose(info.optimality[0], abs(start[1].T @ start[0]).max(), rtol=1e-12)
    J, r = slopes(np, np.asarray(x), DATA), decay(np, np.asarray(x), DATA)
    falling = np.exp(-float(x[1]) * TIMES)
    cross = -(r * TIMES * falling).sum()
    last = (r * TIMES**2 * float(x[0]) * falling).sum()
    hessian = J.T @ J + np.array([[0, cross], [cross, last]])
    np.testing.assert_allclose(info.newton.condition, np.linalg.cond(hessian, 1), rtol=1e-6)


def test_steps_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    y = torch.tensor(DATA)
    _, info = fit(torch, info=True)(y)
    assert capsys.readouterr().out == ""
    fit(torch, verbose=1)(y)
    (summary,) = capsys.readouterr().out.splitlines()
    fit(torch, verbose=2)(y)
    head, *steps, last = capsys.readouterr().out.splitlines()
    assert last == summary
    assert head.split() == ["step", "cost", "length", "optimality"]
    assert [int(row.split()[0]) for row in steps] == list(range(info.steps + 1))
    for verbose in (3, -1, "much"):
        with pytest.raises((ValueError, TypeError), match="verbose"):
            fit(torch, verbose=verbose)(y)


def test_info_is_not_for_programs() -> None:
    ys = torch.tensor(np.stack([DATA, DATA]))
    for options, words in (({"info": True}, "info=True"), ({"verbose": 1}, "verbose=1")):
        with pytest.raises(TypeError, match=words):
            torch.func.vmap(lambda y, o=options: fit(torch, **o)(y))(ys)
        with pytest.raises(TypeError, match=words):
            jax.jit(fit(jnp, **options))(DATA)
