"""The compiled operation of small dense programs, and of their cotangents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.owners.holder import Holder, holding, owner
from ldiv.core.policies.errstate import under
from ldiv.core.policies.or_nan import unless_refused
from ldiv.core.rules.compiled import Arrays, Need
from ldiv.core.rules.finite import unwarned
from ldiv.engines.accuracy.operation_calls import is_like
from ldiv.engines.programs.active_rows import solved
from ldiv.engines.programs.optimality import Data, Optimality
from ldiv.engines.programs.small_dense import are_taken, pulled_back


@dataclass(frozen=True, slots=True)
class ProgramCalls:
    """(z, active, weak, steps, loose) of all data of a program."""

    system: Optimality
    solver: str

    def taking(self, *flat: Array) -> ProgramCalls | None:
        dtypes = {x.dtype for x in flat}
        return self if len(dtypes) == 1 and are_taken(self.system, self.solver) else None

    def forward(self, *flat: Array) -> Any:
        keeper = Holder() if (found := owner()) is None else found
        with under("raise"), unwarned(), holding(keeper):
            return unless_refused(self._solved, list(flat))

    def _solved(self, flat: list[Any]) -> tuple[Any, ...]:
        return solved(self.system, self.solver, Data(*flat))

    def backward(
        self, factor: Any, need: Need, cotangents: Arrays, out: Arrays, *flat: Array
    ) -> Any:
        z_bar, (z, active, *_) = cotangents[0], out
        if factor is None or not is_like(z_bar, z):
            return None
        return pulled_back(self.system, need, factor, z_bar, z, active, flat)
