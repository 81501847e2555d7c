"""Every argument of a rule of eigenpairs may have batch axes that the others have not: under
vmap any of them may be the one that moves.
"""

import numpy as np
import pytest

import ldiv
from ldiv.core.frameworks.trees import leaves, rebuild
from ldiv.core.rules.record import recording
from ldiv.core.rules.rule import bind

RNG = np.random.default_rng(0)
A = RNG.standard_normal((6, 6))
A = A + A.T + np.diag([0.0, 3.0, 6.0, 9.0, 15.0, 24.0])
M = np.eye(6) + 0.01
T = ldiv.diags_array([np.ones(5), np.arange(6.0) * 3 + 4, np.ones(5)], offsets=[-1, 0, 1])
FUNCTIONS = {
    "eigsh": lambda: ldiv.eigsh(A, 2, which="SA"),
    "eigsh, pencil": lambda: ldiv.eigsh(A, 2, M=M, which="SA"),
    "eigsh, sparse": lambda: ldiv.eigsh(T, 2, sigma=0.1),
    "svds": lambda: ldiv.svds(A[:, :4], 2),
    "eigenspace": lambda: ldiv.eigenspace(A, 2, M=M, which="SA"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_any_argument_may_be_batched_alone(name):
    for rule, flat, out in {
        type(rule): (rule, flat, out) for rule, flat, out in bound(FUNCTIONS[name])
    }.values():
        cores, n = leaves(rule.core), len(flat)
        depth = max(x.ndim - c for x, c in zip(flat, cores, strict=True))
        for alone in range(n):
            for some in filter(None, ({alone}, set(range(n)) - {alone})):
                stacked = [
                    np.stack([x, x]).reshape(2, *(1,) * (depth - x.ndim + c), *x.shape)
                    if i in some
                    else x
                    for i, (x, c) in enumerate(zip(flat, cores, strict=True))
                ]
                for y, one in zip(bind(rule, *rebuild(rule.core, stacked)), out, strict=True):
                    np.testing.assert_allclose(
                        y, np.stack([one, one]), atol=1e-9, err_msg=f"{rule}, batched: {some}"
                    )


def bound(f):
    """The rules that a function and its derivatives bind, with their arguments and outputs."""
    with recording() as record:
        f()
    for one in list(record.applied):
        rule, flat, out = one.rule, one.flat, one.out
        args = rebuild(rule.core, flat)
        bars = tuple(
            2 * y if smooth else None
            for y, smooth in zip(out, rule.traits.differentiable or (True,) * len(out), strict=True)
        )
        with recording() as more:
            rule.vjp(rebuild(rule.core, [True for _ in flat]), bars, out, *args)
            rule.jvp(rebuild(rule.core, [symmetrized(x) for x in flat]), out, *args)
        yield rule, flat, out
        yield from ((other.rule, other.flat, other.out) for other in more.applied)


def symmetrized(x):
    return x + x.T if x.ndim == 2 and x.shape[0] == x.shape[1] else x
