"""l, or an error unless s = 1: the logarithm of a determinant that must be positive."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ldiv.core.arrays.shapes import is_complex, numpy_dtype
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, namespace
from ldiv.core.frameworks.trees import Arrays
from ldiv.core.rules.rule import Traits, bind
from ldiv.core.rules.unchanged import Unchanged
from ldiv.engines.accuracy.limits import SIGN
from ldiv.errors import value_error


@dataclass(frozen=True)
class PositiveSign(Unchanged):
    """Arguments l and s, (*batch,); output l. `n` rows."""

    n: int

    traits = Traits(on_host=True, is_condition=True, only_refuses=True)
    core = (0, 0)

    def kernel(self, size: Array, sign: Array) -> Arrays:
        require_positive(sign, size, self.n)
        return (size + 0,)


def if_positive(size: Array, sign: Array, n: int) -> Array:
    """The logarithm, where the determinant is positive."""
    return bind(PositiveSign(n), size, sign)[0]


def require_positive(sign: Array, size: Array, n: int) -> None:
    """Complex signs are rounded."""
    # a real sign is exactly 1; a complex one is a product of n rounded factors
    slack = SIGN * n * float(np.finfo(numpy_dtype(size)).eps) if is_complex(sign) else 0
    check_or_raise((namespace(sign).abs(sign - 1) <= slack).all(), _not_positive)


def _not_positive() -> ValueError:
    return value_error(
        "logdet",
        "a positive determinant",
        "one that is not",
        'Promise assume_a="pos" where it holds, or use slogdet.',
    )
