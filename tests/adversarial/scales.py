"""Rules in other units: a random rule, one of its units, and a power of two from 2^-1000 to 2^1000."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from importlib import import_module
from typing import Any

import numpy as np

from adversarial.case import Case, Wrong
from ldiv.rules.exponential_action import ExponentialProjection
from ldiv.structures.kronecker_sum import KroneckerSum
from ldiv.testing.cases import DTYPES, found_rules
from ldiv.testing.scale import scale_laws

# what rounds in other units; the rest is the same to the last bit
ROUNDED = (ExponentialProjection, KroneckerSum)


@cache
def cases_of(dtype: str) -> list[tuple[Any, Any]]:
    return [(rule, args) for rule, args in found_rules(dtype) if rule.units]


def look(name: str, dtype: str, number: int, which: int, power: int) -> str:
    import_module(name)  # with which its front end comes
    rule, args = cases_of(dtype)[number]
    of_law = import_module("laws.test_scales").ROUNDED
    rounds = isinstance(rule, ROUNDED) or isinstance(getattr(rule, "structure", None), ROUNDED)
    rtol = 1e-13 if rounds else of_law.get(type(rule), 0)
    try:
        return scale_laws(rule, args, rule.units[which], power, name, rtol)
    except AssertionError as error:
        raise Wrong(f"{type(rule).__name__}: {str(error).partition(':')[0]}", error) from error


def cases(seed: int) -> Iterator[Case]:
    rng = np.random.default_rng(seed)
    while True:
        name, dtype = str(rng.choice(["numpy", "numpy", "torch"])), str(rng.choice(DTYPES))
        number = int(rng.integers(len(cases_of(dtype))))
        rule, _ = cases_of(dtype)[number]
        which, power = int(rng.integers(len(rule.units))), 2 * int(rng.integers(-500, 501))
        given = name, dtype, number, which, power
        source = f"from adversarial.scales import look\nlook(*{given})"
        label = f"{name}, {type(rule).__name__}"
        yield Case(label, abs(power), partial(look, *given), partial(str, source))
