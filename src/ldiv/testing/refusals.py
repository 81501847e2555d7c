"""Law of a rule under `errstate(singular="nan")`: a member of a batch is NaN exactly where the rule
refuses it, and the others are what they are without it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ldiv.core.arrays.shapes import common_batch, spread
from ldiv.core.frameworks.trees import Arrays, Trees, leaves, rebuild
from ldiv.core.policies.errstate import errstate
from ldiv.core.rules.rule import Rule, bind
from ldiv.errors import is_of_numbers
from ldiv.testing.distance import assert_close


def refusal_laws(rule: Rule, args: Trees) -> None:
    """Check the law for each argument, in a batch with one member of NaN or zeros; NumPy arrays."""
    for given in _with_bad_values(rule, args):
        with errstate(singular="nan"):
            found = bind(rule, *given)
        batch = common_batch(rule.core, given)
        flat = [spread(x, batch, c) for x, c in zip(leaves(given), rule.cores, strict=True)]
        for i in np.ndindex(*batch):
            alone = _unless_refused(rule, rebuild(args, [x[i] for x in flat]))
            for j, y in enumerate(found):
                if alone is not None:
                    # products pass NaN on, and log |det| of zeros is -inf
                    kept = (y[i] == alone[j]) | (np.isnan(y[i]) & np.isnan(alone[j]))
                    before, after = (np.where(kept, 0, x) for x in (alone[j], y[i]))
                    assert_close("what is not refused is what it was", after, before, 1e-12)
                elif y.dtype.kind in "fc":
                    assert np.isnan(y[i]).all(), f"output {j} of what is refused is NaN"
                else:
                    assert not y[i].any(), f"output {j} of what is refused is 0"


def _with_bad_values(rule: Rule, args: Trees) -> Iterator[Trees]:
    flat, cores = leaves(args), rule.cores
    depth = max(x.ndim - c for x, c in zip(flat, cores, strict=True))
    for i, x in enumerate(flat):
        if x.dtype.kind not in "fc" or not x.size:
            continue
        bad = x.copy()
        bad.flat[-1] = np.nan
        for one in (bad, np.zeros_like(x)):
            stacked = np.stack([x, one, x])
            batch = (3, *(1,) * (depth - x.ndim + cores[i]))
            yield rebuild(args, [*flat[:i], stacked.reshape(*batch, *x.shape), *flat[i + 1 :]])


def _unless_refused(rule: Rule, args: Trees) -> Arrays | None:
    try:
        return bind(rule, *args)
    except Exception as problem:
        if not is_of_numbers(problem):
            raise
        return None
