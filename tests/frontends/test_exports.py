"""Every public function of dense arrays under errstate(singular="nan") is a program of JAX for any
platform, with its derivatives, without calls of ours; or it is refused when it is traced.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from dense_functions import AT_HOST, BY_NUMBERS, DENSE, IN_PYTHON, N

import ldiv

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
A, B = jax.ShapeDtypeStruct((N, N), float), jax.ShapeDtypeStruct((N,), float)
FEW = {"solve", "logdet", "qr", "eigh, B", "pinv", "gaussian_logpdf", "cg", "root"}
REFUSED = AT_HOST.keys() | BY_NUMBERS | IN_PYTHON
FEW_REFUSED = {"ldl", "solve_banded", "expm", "polar", "orth", "least_squares"}


def some(names: Any, few: set[str]) -> list[Any]:
    assert few <= set(names)
    return [x if x in few else pytest.param(x, marks=pytest.mark.exhaustive) for x in names]


@ldiv.errstate(singular="nan")
def exported(f: Callable[[Any, Any], Any]) -> Any:
    """The value, its gradients, and their tangents."""
    gradient = jax.grad(lambda a, b: f(a, b).sum(), (0, 1))

    def every(a: Any, b: Any) -> Any:
        return f(a, b), *gradient(a, b), *jax.jvp(gradient, (a, b), (a.mT, b))[1]

    return jax.export.export(jax.jit(every), platforms=["cpu", "cuda", "tpu"])(A, B)


@pytest.mark.parametrize("name", some([x for x in DENSE if x not in REFUSED], FEW))
def test_programs_for_any_platform(name: str) -> None:
    called = set(re.findall(r"custom_call @(\w+)", exported(DENSE[name]).mlir_module()))
    assert not [x for x in called if "callback" in x or "ldiv" in x]


@pytest.mark.parametrize("name", some(sorted(REFUSED), FEW_REFUSED))
def test_what_is_no_such_program_is_refused_in_words(name: str) -> None:
    errors = ldiv.EngineError, TypeError, NotImplementedError
    words = "in Python|without Python|known now|known numbers|must be known"
    with pytest.raises(errors, match=words):
        exported((DENSE | AT_HOST)[name])
