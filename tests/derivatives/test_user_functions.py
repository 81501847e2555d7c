"""Functions of users return arrays of their framework in its floating dtypes; for other results a
TypeError or ValueError of ours says so.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
import torch

import ldiv

A, b = np.diag([2.0, 4.0, 8.0]) + 1, np.array([1.0, 2.0, 3.0])
DIAGONAL = (np.arange(3), np.arange(3))
Named = namedtuple("Named", "first second")


def jax_array(x: Any) -> Any:
    jax.config.update("jax_enable_x64", True)
    return jax.numpy.asarray(x)


ARRAYS = pytest.mark.parametrize(
    "to", [np.asarray, torch.tensor, jax_array], ids=["numpy", "torch", "jax"]
)


@ARRAYS
@pytest.mark.parametrize("value", [None, 1, [1.0], (), (None,), {}], ids=repr)
def test_no_arrays(value: Any, to: Any) -> None:
    for call in (
        lambda: ldiv.vjp(lambda x: value, to(b)),
        lambda: ldiv.jvp(lambda x: value, (to(b),), (to(b),)),
    ):
        with pytest.raises(
            TypeError,
            match="f: expected a function that returns an array, or a tuple of arrays, got",
        ):
            call()


def test_integers_beside_numbers() -> None:
    with pytest.raises(
        TypeError, match="f: expected a function with floating values alone, got one with integers"
    ):
        ldiv.vjp(ldiv.lu_factor, torch.tensor(A))


@pytest.mark.parametrize("to", [torch.tensor, jax_array], ids=["torch", "jax"])
def test_a_named_tuple_is_a_tuple(to: Any) -> None:
    y, pullback = ldiv.vjp(lambda x: Named(2 * x, x), to(b))
    assert type(y) is tuple
    np.testing.assert_array_equal(np.asarray(pullback((to(b), None))[0]), 2 * b)


@ARRAYS
def test_one_value_twice(to: Any) -> None:
    """The two cotangents of the value are added."""

    def twice(a: Any, b: Any) -> tuple[Any, Any]:
        x = ldiv.solve(a, b)
        return x, x

    found = ldiv.vjp(twice, to(A), to(b))[1]((to(b), to(2 * b)))
    for one, expected in zip(found, ldiv.vjp(ldiv.solve, to(A), to(b))[1](to(3 * b)), strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(expected))


def half(y: Any) -> Any:
    return y.half() if isinstance(y, torch.Tensor) else y.astype("float16")


def bfloat16(y: Any) -> Any:
    return (
        y.bfloat16()
        if isinstance(y, torch.Tensor)
        else y.astype("bfloat16" if isinstance(y, jax.Array) else "float16")
    )


def foreign(y: Any) -> Any:
    return torch.ones(tuple(y.shape)) if isinstance(y, np.ndarray) else np.ones(y.shape)


def integers(y: Any) -> Any:
    return y.long() if isinstance(y, torch.Tensor) else y.astype("int64")


def operator(change: Callable[[Any], Any], to: Any) -> ldiv.LinearOperator:
    return ldiv.LinearOperator(
        lambda p, X: change(p[:, None] * X), to(b), shape=(3, 3), assume_a="pos"
    )


@ARRAYS
@pytest.mark.parametrize("change", [half, bfloat16, integers, foreign])
def test_a_product_in_another_dtype_or_framework(change: Any, to: Any) -> None:
    for call in (
        lambda: operator(change, to) @ to(b),
        lambda: ldiv.solve(operator(change, to), to(b)),
        lambda: ldiv.eigsh(operator(change, to), 1),
    ):
        with pytest.raises(
            TypeError,
            match=r"(matvec: expected one of float32|arrays: expected all of one framework)",
        ):
            call()


@ARRAYS
def test_a_complex_product_of_real_numbers(to: Any) -> None:
    with pytest.raises(
        TypeError,
        match="matvec: expected real numbers, as those of params and the block, got complex128",
    ):
        operator(lambda y: y + 1j * y, to) @ to(b)


@pytest.mark.parametrize("to", [torch.tensor, jax_array], ids=["torch", "jax"])
@pytest.mark.parametrize("change", [half, bfloat16, integers, foreign, lambda y: y + 1j * y])
def test_other_functions(change: Any, to: Any) -> None:
    x = to(b)
    for call in (
        lambda: ldiv.root(lambda x, p: change(x**3 - p), x, x),
        lambda: ldiv.root(lambda x, p: change(x**3 - p), x, x, pattern=DIAGONAL),
        lambda: ldiv.implicit(lambda x, p: change(x**3 - p), 0 * x, 0 * x),
        lambda: ldiv.jacobian(lambda x: change(x**3), x),
        lambda: ldiv.hessian(lambda x: change((x**3).sum()), x),
        lambda: ldiv.hvp(lambda x: change((x**3).sum()), x, x),
    ):
        with pytest.raises(
            TypeError,
            match=r"(f: expected a function with real floating values, got|arrays: expected all of one framework)",
        ):
            call()


@ARRAYS
@pytest.mark.parametrize("change", [half, bfloat16, foreign])
def test_functions_of_eigenvalues(change: Any, to: Any) -> None:
    with pytest.raises(
        TypeError,
        match=r"(f: expected numbers: integers, or one of float32|arrays: expected all of one framework)",
    ):
        ldiv.spectral_sum(change, to(A), 2)


def test_functions_that_are_checked() -> None:
    with pytest.raises(TypeError, match="f: expected numbers: integers, or one of float32"):
        ldiv.gradcheck(lambda a, b: ldiv.solve(a, b).bfloat16(), torch.tensor(A), torch.tensor(b))
