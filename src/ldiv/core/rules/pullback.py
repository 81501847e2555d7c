"""x_bar = vjp(y_bar, y, x) of a rule, as a rule itself: a compiled program has one call for it.

tangent      that of the vjp, which is made of rules
cotangent    likewise
cost         1 vjp
reference    the rule's
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ldiv.core.arrays.shapes import common_batch
from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.dispatch import frontend_of, namespace
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees, leaves, rebuild
from ldiv.core.rules.compiled import CompiledCall
from ldiv.core.rules.rule import Rule, Traits, name_of


@dataclass(frozen=True)
class Pullback(Rule):
    """Arguments: the cotangents of the outputs that are `given`, all outputs, and the leaves of the
    arguments of `rule`. Outputs: the cotangents of the arguments that are in `need`.

    own: the number of own axes of each output.
    """

    rule: Rule
    given: tuple[bool, ...]
    need: tuple[bool, ...]
    own: tuple[int, ...]

    @cached_property
    def core(self) -> Trees:
        bars = [own for own, is_given in zip(self.own, self.given, strict=True) if is_given]
        return (*bars, *self.own, *self.rule.cores)

    @cached_property
    def traits(self) -> Traits:
        return Traits(name=f"the derivative of {name_of(self.rule)}")

    def program(self, *flat: Any) -> CompiledCall | None:
        found = vars(type(self.rule)).get("pullback")
        return found and found(self.rule, self.given, common_batch(self.core, flat), flat)

    def kernel(self, *args: Tree) -> Arrays:
        return self._pulled(args)

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        moving = [i for i, dx in enumerate(tangents) if dx is not None]
        f, xs = self._of(moving, args)
        moved: Arrays = frontend_of(*xs).user.jvp(f, xs, tuple([tangents[i] for i in moving]))[1]
        return moved

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        wanted = [i for i, needed in enumerate(need) if needed]
        f, xs = self._of(wanted, args)
        bars = tuple(
            [0 * y if bar is None else bar for bar, y in zip(cotangents, out, strict=True)]
        )
        found = dict(zip(wanted, frontend_of(*xs).user.vjp(f, xs)[1](bars), strict=True))
        return tuple([found.get(i) for i in range(len(args))])

    def _of(
        self, which: Sequence[int], args: Sequence[Any]
    ) -> tuple[Callable[..., Arrays], tuple[Any, ...]]:
        """Return the kernel as a function of some of its arguments, and these arguments."""

        def f(*xs: Any) -> Arrays:
            flat = list(args)
            for i, x in zip(which, xs, strict=True):
                flat[i] = x
            return self._pulled(flat)

        return f, tuple([args[i] for i in which])

    def _pulled(self, flat: Sequence[Any]) -> Arrays:
        count, known = sum(self.given), len(self.given)
        some = iter(flat[:count])
        bars = tuple([next(some) if is_given else None for is_given in self.given])
        out, given = tuple(flat[count : count + known]), list(flat[count + known :])
        core = self.rule.core
        found = self.rule.vjp(rebuild(core, list(self.need)), bars, out, *rebuild(core, given))
        return tuple(
            [
                namespace(x).zeros_like(x) if g is None else g
                for g, x, needed in zip(leaves(found), given, self.need, strict=True)
                if needed
            ]
        )
