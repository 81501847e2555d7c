"""A held factorization: its owner, the state in which it was made, its copies in other frameworks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Self

import numpy as np

from ldiv.core.arrays.pytree import copied
from ldiv.core.arrays.shapes import device_of
from ldiv.core.arrays.validate import require_memory
from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.dispatch import frontend_of, is_array, traced
from ldiv.core.frameworks.trees import Tree, leaves
from ldiv.core.owners.holder import Holder, holding
from ldiv.core.policies.errstate import under
from ldiv.core.rules.record import is_recording


class HeldFactor(ABC):
    """Base class of the results of `factorized`."""

    _singular: str  # of the call that made it, for all that it computes
    _elsewhere: dict[Any, Self]  # of NumPy's constants, by framework and device
    _holder: Holder  # of the factor

    @property
    @abstractmethod
    def _given(self) -> tuple[Any, ...]:
        """The arguments of the constructor, for copies and pickles."""

    @property
    @abstractmethod
    def _values(self) -> Tree:
        """The values of the matrix."""

    @abstractmethod
    def _moved(self, b: Any) -> Self:
        """Return this factorization with its values in the framework of b."""

    def _begin(self, singular: str) -> None:
        self._singular, self._elsewhere, self._holder = singular, {}, Holder()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled is the matrix; its factor is computed again where it arrives."""
        return type(self), self._given

    def __deepcopy__(self, cached: dict[int, Any]) -> Self:
        return type(self)(*copied(self._given, cached))

    @cached_property
    def _is_numpys(self) -> bool:
        return type(leaves(self._values)[0]) is np.ndarray

    def beside(self, b: Any) -> Self:
        """Return the factorization in the framework of b, made once if the values are NumPy's."""
        if not self._is_numpys or isinstance(b, np.ndarray | np.generic) or not is_array(b):
            return self
        require_memory("b", b)
        frontend = frontend_of(b)
        place = frontend.__name__, device_of(b), frontend.graphless()
        if place not in self._elsewhere:
            with under(self._singular):
                made = self._moved(b)
            if any(map(traced, leaves(made._values))):
                return made
            self._elsewhere[place] = made
        return self._elsewhere[place]

    def _finding(self) -> AbstractContextManager[Any]:
        """A context in which solves use the factor of NumPy's values without a search."""
        return _nothing if not self._is_numpys or is_recording() else holding(self._holder)


_nothing: AbstractContextManager[Any] = nullcontext()
