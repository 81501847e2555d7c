"""The fronts of a symmetric structure, with the analysis for factors that pass every check in compiled
code. Engines by Cholesky and by L D L^T share them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.frameworks.trees import Tree
from ldiv.engines.accuracy.sparse_checked import Accepted, SparseFronts
from ldiv.engines.factor import Factor
from ldiv.engines.selected.fronts import Fronts
from ldiv.structures.sparse import Sparse
from ldiv.structures.symmetric import Symmetric


class CheckedFronts(Fronts):
    """Fronts of a structure whose entries are those of a sparse base, or else its slots.

    kind: C for L L^H, H for L D L^H, T for L D L^T
    """

    def __init__(self, structure: Any, kind: str) -> None:
        super().__init__(slots := structure.pattern)
        self.kind = kind
        # entries of which several may share a slot, so that parameters are taken as they are
        is_part = isinstance(structure, Symmetric)
        self._has_entries = is_part and type(structure.base) is Sparse
        self._given: Pattern = (
            structure.base.entries
            if self._has_entries
            else Pattern(slots.indices, slots.columns, slots.shape)
        )

    @cached_property
    def checked(self) -> SparseFronts:
        return SparseFronts(self.kind, self.compiled, self.row_place, self._given)

    def factor(
        self, structure: Any, p: Tree, careful: Callable[..., Factor], accepted: type[Accepted]
    ) -> Factor:
        """The factor that compiled code accepts, or that of `careful()`."""
        # a structure that stands in for this one has the values of slots
        own = self._has_entries and isinstance(structure, Symmetric)
        values = p if own else structure.slot_values(p)
        return self.checked.factor(values, not own, careful, accepted)

    @property
    def heap_bytes(self) -> int:
        made = vars(self).get("checked")
        return super().heap_bytes + (0 if made is None else made.heap_bytes)
