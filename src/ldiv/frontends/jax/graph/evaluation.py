"""y = kernel(x), and the factors that the kernel takes, makes and passes to derivatives.

A factor made of arrays (LU, Cholesky, QR of a dense matrix) is a further output of the rule if a
derivative needs it. The rules of the derivative take it as a further argument, so that a loop over
solves saves it instead of factoring again. A rule that is a call of compiled code always takes the
factor (`factor_primitive`). So the arguments of the primitive are (*x, *arrays of the factors
`given`), and its outputs are y, or with `with_factors` (*y, *arrays of the factors made). Factors
that are not arrays are found again in the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, NamedTuple

import jax

from ldiv.core.frameworks.trees import HostArray, leaves
from ldiv.core.owners.caches import bounded_cache
from ldiv.core.owners.holder import TracedFactor, TracedHolder, holding, owner, store
from ldiv.core.rules.finite import evaluated
from ldiv.core.rules.rule import Rule
from ldiv.errors import value_error
from ldiv.frontends.jax.devices import kernels
from ldiv.frontends.jax.devices.callbacks import Specs, calls_host_alone, on_host
from ldiv.frontends.jax.devices.checks import checking
from ldiv.frontends.jax.graph import members
from ldiv.frontends.jax.graph.compiled_calls import call_of
from ldiv.frontends.jax.values import traced

Given = tuple[TracedFactor, ...]
Run = tuple[list[jax.Array], Given, list[jax.Array]]


def own_arguments(rule: Rule, args: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    """Split the arguments into those of the rule and the arrays of factors after them."""
    count = len(leaves(rule.core))
    return args[:count], args[count:]


def array_count(given: Given) -> int:
    """The number of arrays of these factors."""
    return sum(len(factor.core) for factor in given)


def holding_given(
    flat: Sequence[Any], given: Given, factor_arrays: Sequence[Any]
) -> AbstractContextManager[None]:
    """A context in which rules of the arguments `flat` find the given factors, of arrays
    `factor_arrays`.
    """
    return holding(TracedHolder(flat, given, factor_arrays)) if given else nullcontext()


# -- the kernel: now, and when it is compiled ---------------------------------


def eager_kernel(rule: Rule, flat: list[jax.Array]) -> list[jax.Array]:
    """Run the kernel with the store as owner: a rule is a static parameter of the primitive, and
    cannot own the factors that its derivatives need.
    """
    with holding(store if (keeper := owner()) is None else keeper):
        try:
            if rule.policy != "nan" and (found := kernels.kernel(rule, flat)) is not None:
                return found
            rule = rule.rescaled_for(flat)
            if rule.policy == "nan":
                return list(members.eager(flat, rule, partial(staged_kernel, rule=rule)))
            return list(evaluated(rule, flat))
        except jax.errors.UnexpectedTracerError as error:  # f closes over a tracer
            raise closed_over() from error


def staged_kernel(
    *args: jax.Array, rule: Rule, given: Given, with_factors: bool
) -> list[jax.Array]:
    out, _, made = _run(*args, rule=rule, given=given, with_factors=with_factors)
    return [*out, *made] if with_factors else out


def _run(*args: jax.Array, rule: Rule, given: Given, with_factors: bool) -> Run:
    """The outputs, the factors that were made, and their arrays.

    A kernel that needs the host runs there as a whole, with its units and its checks: XLA takes some 15 ms
    to compile each of them.
    """
    if rule.policy != "nan" and rule.traits.on_host:
        specs = tuple((x.shape, x.dtype) for x in args)
        if (found := _outputs(rule, given, specs)).on_host:
            flat, _ = own_arguments(rule, args)
            ys = tuple((y.shape, y.dtype) for y in found.own)
            return list(on_host(partial(_evaluated_there, rule), ys, *flat)), (), []
    return _traced(*args, rule=rule, given=given, with_factors=with_factors)


def _evaluated_there(rule: Rule, *flat: HostArray) -> tuple[HostArray, ...]:
    return evaluated(rule, list(flat))


def _traced(*args: jax.Array, rule: Rule, given: Given, with_factors: bool) -> Run:
    """Do the same as `_run` by operations of XLA.

    Factors that are passed on are not checked again: so the outputs beside them wait until all
    checks have passed. So do the outputs of a condition, whose error comes first.
    """
    if rule.policy == "nan":
        return members.run(*args, rule=rule, given=given, outputs_of=outputs_of)
    flat, factor_arrays = own_arguments(rule, args)
    keeper = TracedHolder(flat, given, factor_arrays)
    with checking() as waiting, holding(keeper):
        out = list(evaluated(rule, list(flat)))
        if with_factors or rule.traits.is_condition:
            waiting += out
    return waiting or out, tuple(keeper.factors[len(given) :]), keeper.made


# -- what a kernel returns, by shapes and dtypes alone ------------------------


class Outputs(NamedTuple):
    """The outputs of a kernel, the factors that it makes, and their arrays; and whether all of it runs on
    the host.
    """

    own: list[Any]
    factors: Given
    made: list[Any]
    on_host: bool = False


def outputs_of(rule: Rule, given: Given, args: Sequence[Any]) -> Outputs:
    if (call := call_of(rule, own_arguments(rule, args)[0])) is None:
        return _outputs(rule, given, tuple((x.shape, x.dtype) for x in args))
    # its factor is that of another primitive
    return Outputs([jax.core.ShapedArray(*spec) for spec in call.own], (), [])


@bounded_cache(256)
def _outputs(rule: Rule, given: Given, specs: Specs) -> Outputs:
    """Find outputs and factors by one abstract run: the trace shows which factors a kernel makes."""
    factors: list[TracedFactor] = []

    def run(*args: jax.Array) -> Any:
        out, factors[:], made = _traced(*args, rule=rule, given=given, with_factors=False)
        return out, made

    written = jax.make_jaxpr(run, return_shape=True)
    program, found = written(*(jax.ShapeDtypeStruct(*spec) for spec in specs))
    if any(map(traced, program.consts)):
        raise closed_over()
    own, made = ([jax.core.ShapedArray(y.shape, y.dtype) for y in some] for some in found)
    goes = rule.traits.on_host and not made and calls_host_alone(program.jaxpr)
    return Outputs(own, tuple(factors), made, goes)


def closed_over() -> ValueError:
    """Return the error for a user's function that closes over a tracer: the program would hold it
    as a constant, and its derivative would be zero.
    """
    return value_error(
        "a function of yours",
        "all differentiated, mapped or traced arrays among its arguments",
        "a closure over such an array",
        "Pass the array in `params`, through which gradients flow, or stop its gradient and make it outside of the transformed function.",
    )
