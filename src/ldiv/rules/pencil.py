"""Arguments (pA, pB, auxiliaries) and units of all rules of a pencil A x = lam B x.

t^2 A has the eigenvalues t^2 lam, and t^2 B the eigenvalues t^-2 lam and the vectors t^-1 x.
"""

from __future__ import annotations

from collections.abc import Sequence

from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.trees import Trees, leaves, rebuild
from ldiv.core.rules.rescaling import Rescaled
from ldiv.core.rules.rule import Unit
from ldiv.engines.eigen.task import EigenTask


class OfPencil(Rescaled):
    """`eigenvalues`, `vectors`: for each output, how often it has their unit."""

    task: EigenTask
    eigenvalues: tuple[int, ...]
    vectors: tuple[int, ...]

    @property
    def core(self) -> Trees:
        return self.task.core

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        a, b, more = (len(leaves(core)) for core in self.task.core)
        of_unit = (0,) * (more - (self.task.sigma is not None))
        found = []
        for name, structure, first, sign in (("A", self.task.A, 0, 1), ("M", self.task.B, a, -1)):
            count = len(leaves(structure.core))
            if (
                not count
                or structure.unit_powers is None
                or set(leaves(structure.unit_powers)) != {2}
            ):
                continue
            of = [0] * (a + b)
            of[first : first + count] = [2] * count
            gives = [2 * sign * e for e in self.eigenvalues]
            # X^H B X = I measures the vectors by B
            if sign < 0:
                gives = [g - v for g, v in zip(gives, self.vectors, strict=True)]
            sigma = (2 * sign,) * (self.task.sigma is not None)
            by = tuple(range(first, first + count))
            found.append(Unit((*of, *of_unit, *sigma), tuple(gives), by=by, name=name))
        return tuple(found)

    def measured(self, unit: Unit, flat: Sequence[Array]) -> list[tuple[Array, int]]:
        """Return the parameters that are read; the others do not count for the unit."""
        pA, pB, _ = rebuild(self.core, flat)
        structure, p = (self.task.A, pA) if unit.by[0] == 0 else (self.task.B, pB)
        return list(zip(leaves(structure.read(p)), leaves(structure.core), strict=True))
