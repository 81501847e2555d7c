"""X <- f(X, A), f a rule whose vjp uses its outputs and A, never the overwritten X.

reverse      (A_bar, X_bar) = f.vjp(dX);   dA += A_bar, then dX <- X_bar
"""

from __future__ import annotations

from ldiv.core.arrays.buffers import Buffer
from ldiv.core.owners.holder import Holder, holding
from ldiv.core.rules.finite import derivative
from ldiv.core.rules.rule import Rule, bind
from ldiv.inplace.duplicated import shadow, value
from ldiv.inplace.workspace import Workspace


def replaced(workspace: Workspace, rule: Rule, X: object, *before: object) -> tuple[Buffer, ...]:
    """Overwrite X, the last argument of the rule, by its first output; return the others."""
    dX, shadows = shadow(X), [shadow(A) for A in before]
    holder = Holder()  # the reverse reuses the factors of the forward operation
    with holding(holder):
        first, *rest = bind(rule, *map(value, before), value(X))
    kept = [workspace.keep("A", value(A)) for A in before if dX is not None]
    with workspace.writing(value(X)):
        value(X)[...] = first
    if dX is None:
        return tuple(rest)
    out = workspace.keep("the result", value(X))

    def back() -> None:
        values = [k.value for k in kept]
        need = [dA is not None for dA in shadows]
        with holding(holder):
            *bars, bar = derivative(
                rule,
                rule.vjp,
                (*need, True),
                (dX, *(None for _ in rest)),
                (out.value, *rest),
                *values,
                out.value,
            )
        for dA, g in zip(shadows, bars, strict=True):
            if dA is not None:
                dA += g
        dX[...] = bar

    workspace.record(back)
    return tuple(rest)
