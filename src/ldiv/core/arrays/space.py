"""The space of vectors that a matrix maps: who adds up their parts, and which engines know them.

Of most matrices it is `HERE`: this process has all of a vector, and sums of parts are what they
are. A matrix over several processes brings a space of its own (`ldiv.distributed`), so that rules
write x^H y once for both, and the registry finds the engines of either. Nobody needs to ask
which of the two it is.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import partial

from ldiv.core.arrays.processes import Processes
from ldiv.core.arrays.shapes import adjoint
from ldiv.core.frameworks.array_protocol import Array


class Space:
    """Vectors of numbers that are all on this process."""

    solvers = "engine"  # the kinds of plug-ins that solve, as `core.frameworks.folders` knows them
    eigensolvers = "eigensolver"

    @property
    def processes(self) -> Processes | None:
        """The group, for gradcheck alone: it draws directions and reaches verdicts by itself, and
        what is drawn or concluded on one process must be so on all; sums do not tell it that.
        """
        return None

    def sum(self, x: Array) -> Array:
        """The sum of parts, a number of the whole; a rule."""
        return x

    def spread(self, x: Array) -> Array:
        """A number of the whole, used with parts from here on: x itself; a rule."""
        return x

    def norms(self, sizes: Array) -> Array:
        """Norms of the whole, from those of the parts."""
        return sizes

    def call(self, function: str) -> AbstractContextManager[None]:
        """A context around a public function; raises if the function does not serve such matrices."""
        return nullcontext()


HERE = Space()


class Together(partial):  # type: ignore[type-arg]
    """A function on the host that all processes call: a compiler may not leave it out, not even
    where what it returns is empty.
    """


# -- blocks of columns --------------------------------------------------------


def gram(space: Space, x: Array, y: Array) -> Array:
    """x^H y, of blocks of columns."""
    return space.sum(adjoint(x) @ y)


def combined(space: Space, x: Array, c: Array) -> Array:
    """x c: combinations of the columns of x."""
    return x @ space.spread(c)
