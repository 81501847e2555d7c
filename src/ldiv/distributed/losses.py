"""Sums over all processes that a loss is made of, and numbers that all of them share."""

from __future__ import annotations

from typing import Any

from ldiv.core.arrays.processes import Shared
from ldiv.core.arrays.typing import ArrayT, to_caller
from ldiv.core.arrays.validate import as_float
from ldiv.distributed.processes import group


def sum(local: ArrayT, comm: Any = None) -> ArrayT:
    """The sum over all processes, entry by entry, equal on each of them.

    Parameters
    ----------
    local : array
        The part of this process, of one shape and dtype on all.
    comm : communicator, optional
        By default all processes.

    Returns
    -------
    total : array
        Shaped like the part.

    Raises
    ------
    RankError
        For shapes that differ between processes.

    Notes
    -----
    Differentiable in every mode and order. Each process computes the same loss from the total, and
    the loss counts once: the cotangent of the total is that of each part. A plain all-reduce, of
    which every copy of the loss counts, gives gradients too large by the number of processes.
    Cost: one reduction, none in reverse.

    Examples
    --------
    >>> from ldiv import distributed  # doctest: +SKIP
    >>> loss = distributed.sum((x * x).sum())  # doctest: +SKIP
    """
    processes = group(comm)
    with processes.section("distributed.sum"):
        part = as_float("local", local)
    return to_caller(processes.sum(part))


def spread(shared: ArrayT, comm: Any = None) -> ArrayT:
    """A parameter that all processes share, for use in their parts: itself.

    Parameters
    ----------
    shared : array
        Equal on all processes.
    comm : communicator, optional
        By default all processes.

    Returns
    -------
    shared : array
        The same numbers.

    Notes
    -----
    Differentiable in every mode and order: its cotangent is the sum of what the processes compute
    for their parts, so that each has the whole gradient. Without it each has its share.
    Cost: none, and one reduction in reverse.

    Examples
    --------
    >>> from ldiv import distributed  # doctest: +SKIP
    >>> values = distributed.spread(conductivity) * areas  # doctest: +SKIP
    """
    processes = group(comm)
    with processes.section("distributed.spread"):
        same = as_float("shared", shared)
    return to_caller(processes.spread(same))


def shared(argument: Any) -> Shared:
    """Mark an argument of `gradcheck` as one that all processes share.

    Parameters
    ----------
    argument : array, matrix or marked argument
        Equal on all processes; without the mark each process has a part of its own.

    Returns
    -------
    argument : Shared
        For `ldiv.gradcheck`, which moves it alike on all processes, and gives the function the
        plain array.

    Notes
    -----
    Not differentiable: a mark of the argument, no operation on it.
    Cost: none.

    Examples
    --------
    >>> from ldiv import distributed  # doctest: +SKIP
    >>> f = lambda values, factor: loss(values * distributed.spread(factor))  # doctest: +SKIP
    >>> ldiv.gradcheck(f, values, distributed.shared(factor)).ok  # doctest: +SKIP
    True
    """
    return Shared(argument)
