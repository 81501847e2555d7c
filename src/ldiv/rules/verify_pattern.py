"""Y = X, the values of a sparse Jacobian, and an error unless S(X) v = y for a random v.

y is the product J v that the sparse matrix must reproduce.
tangent      dY = dX
cotangent    X_bar = Y_bar
cost         one product and a copy
reference    Freivalds (1977): a random v distinguishes two matrices with probability 1
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import numpy_dtype
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, host, namespace
from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.frameworks.trees import Arrays
from ldiv.core.rules.finite import all_finite
from ldiv.core.rules.rule import Traits, bind
from ldiv.core.rules.unchanged import Unchanged
from ldiv.errors import value_error
from ldiv.structures.sparse import Sparse

LONGEST = 32  # entries of a row, at most, for a product by gathers
PADDED = 4  # places for each entry, at most, once rows are padded to equal length


@dataclass(frozen=True)
class VerifyPattern(Unchanged):
    """Arguments X (*batch, nnz), v (*batch, n), y (*batch, m)."""

    structure: Sparse

    traits = Traits(may_overflow=True, is_condition=True)
    core = (1, 1, 1)

    def kernel(self, x: Array, v: Array, y: Array) -> Arrays:
        xp, (product, size) = namespace(x), self._product_and_size(x, v)
        check_or_raise(all_finite(x) & all_finite(y), _not_finite)
        allowed = float(np.finfo(numpy_dtype(x)).eps) ** 0.5 * (size + xp.abs(y))
        # counting rows compiles faster than finding the largest distance; NaN counts as off
        off = xp.sum(~(xp.abs(product - y) <= allowed))
        check_or_raise(off == 0, partial(_misses, float(np.finfo(numpy_dtype(x)).eps) ** 0.5), off)
        return (x + 0,)

    def _product_and_size(self, x: Array, v: Array) -> tuple[Array, Array]:
        """S(x) v, and |S(x)| |v|, the scale of its rounding error."""
        xp = namespace(x)
        rows = (
            None
            if host(x)
            else self.structure.cached("rows", lambda: _rows(self.structure.pattern))
        )
        if rows is None:
            product, size = (
                self.structure.apply(a, b[..., None], "N")[..., 0]
                for a, b in ((x, v), (xp.abs(x), xp.abs(v)))
            )
            return product, size
        v = xp.concat([v, xp.zeros_like(v[..., :1])], axis=-1)  # padding points at this zero
        terms = [x[..., entry] * v[..., column] for entry, column in zip(*rows, strict=True)]
        return sum(terms[1:], terms[0]), sum(map(xp.abs, terms[1:]), xp.abs(terms[0]))


def _rows(pattern: Pattern) -> tuple[Any, Any] | None:
    """The first entry of each row and its column, the second, ...; None if row lengths vary a lot.

    With them a product consists of gathers, which compilers do fast, and not of scatters.
    """
    (m, n), (rows, cols) = pattern.shape, pattern.places
    # r-th entries of all rows are gathered together: y = sum over r of x[entry_r] v[column_r]
    lengths = np.bincount(rows, minlength=m)
    most = int(lengths.max(initial=0))
    if not 0 < most <= LONGEST or most * m > PADDED * pattern.nnz:
        return None
    order = np.argsort(rows, kind="stable")
    # the position of each entry inside its row, in the order of the rows
    place = np.arange(pattern.nnz) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    # padding is entry 0 times the zero at index n of v
    entries, columns = np.zeros((most, m), np.int32), np.full((most, m), n, np.int32)
    entries[place, rows[order]], columns[place, rows[order]] = order, cols[order]
    return entries, columns


def agreed(structure: Sparse, x: Any, v: Any, y: Any) -> Any:
    """x, or an error unless S(x) v = y."""
    return bind(VerifyPattern(structure), x, v, y)[0]


def _misses(accuracy: float, off: Any) -> ValueError:
    came = (
        "one that misses some, or a derivative that is not accurate to "
        f"{accuracy:.1e} (rows that are off: {int(off)})"
    )
    advice = (
        "Add the missing entries, ldiv.detect_pattern finds them at a point; "
        "solve what f solves to full accuracy."
    )
    return value_error("pattern", "an entry wherever the derivative is not zero", came, advice)


def _not_finite() -> ValueError:
    advice = (
        "f overflows, or has a kink or a pole there: move x, or rewrite f "
        "(sqrt(x**2 + eps), where with a safe argument)."
    )
    return value_error("f", "a finite derivative at x", "NaN or infinity", advice)
