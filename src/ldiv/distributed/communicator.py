"""A group of processes that agree before each step: an error on one of them is an error on all.

Every collective step begins with `agree`, one reduction of a few integers: the name of the step,
and whether a process comes with an error instead. A process that finds bad input meets the others
there, says so, and all raise the same error. Processes that come to different steps find out, too.
"""

from __future__ import annotations

import os
import pickle
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import numpy as np

from ldiv.core.arrays.processes import RankError, note_step
from ldiv.distributed.petsc import farewells, mpi, petsc
from ldiv.errors import EngineError

TIMEOUT = float(os.environ.get("LDIV_DISTRIBUTED_TIMEOUT", "600"))  # seconds
SPINS = 2000  # tests without sleep, while a reduction is under way
END = "the end of the program"
NEVER = np.iinfo(np.int64).min


class Communicator:
    """A communicator of ldiv's own, duplicated from that of the user."""

    def __init__(self, of: Any) -> None:
        self.of, self.comm = of, of.Dup()
        self.rank: int = self.comm.rank
        self.size: int = self.comm.size
        self.numbers = count()  # of what all of these processes make
        self.parted = ""  # why the processes are out of step, for good
        petsc()  # which makes sure that an error ends all processes
        farewells.append(self._leave)

    def __repr__(self) -> str:
        return f"<{self.size} processes>"

    def __deepcopy__(self, cached: dict[int, Any]) -> Communicator:
        return self

    def __reduce__(self) -> Any:
        raise TypeError(
            "a matrix over several processes cannot be pickled: each process has a part of it. "
            "Pickle the values and indices of each, and make the matrix anew."
        )

    # -- agreement ----------------------------------------------------------------

    def agree(self, step: str, *numbers: int, error: BaseException | None = None) -> list[int]:
        """The largest of each of these integers; or an error on all processes, if one has one."""
        note_step(self)
        if self.parted:
            raise _agreed(RankError(self.parted))
        code = zlib.crc32(step.encode())
        mine = [0, code, -code, *numbers] if error is None else [self.rank + 1, *[NEVER] * 2]
        # an error may come where the others count numbers: the length is always the same
        sent = np.full(8, NEVER, np.int64)
        sent[: len(mine)] = mine
        most = np.empty_like(sent)
        self._wait(self.comm.Iallreduce(sent, most, op=mpi().MAX), step)
        failed, high, low = (int(x) for x in most[:3])
        if failed > 0:
            self._raise_together(step, failed - 1, error)
        elif high != -low:
            steps = self.comm.allgather(step)
            who = "; ".join(f"process {i} is at {name}" for i, name in enumerate(steps))
            raise _agreed(
                RankError(
                    f"the processes make different calls: {who}. "
                    "All must make the same calls, with matrices of the same kind, in one order."
                )
            )
        return [int(x) for x in most[3 : 3 + len(numbers)]]

    def _raise_together(self, step: str, root: int, own: BaseException | None) -> None:
        """Raise the error of the process `root` on all; a process with an error of its own raises that."""
        error = self.comm.bcast(_portable(own) if self.rank == root else None, root=root)
        if own is not None:
            _agreed(own)
            return
        error.add_note(f"It was raised on process {root} of {self.size}, in {step}.")
        raise _agreed(error)

    @contextmanager
    def section(self, operation: str) -> Iterator[None]:
        """A context that reports an error on this process to the others."""
        try:
            yield
        except petsc().Error as error:  # which cannot be pickled, and says where, not what
            refused = EngineError(f"PETSc refuses, in {operation}: {str(error).strip()}")
            self.agree(operation, error=refused)
            raise refused from error
        except Exception as error:
            if not getattr(error, "agreed", False):
                self.agree(operation, error=error)
            raise

    def _leave(self) -> None:
        """Wait at exit for the other processes; those in another step learn that this one has ended."""
        if self.parted:
            mpi().COMM_WORLD.Abort(1)
        while True:
            try:
                self.agree(END)
                return
            except RankError:
                return
            except Exception:  # of the others, which may go on
                continue

    def _wait(self, request: Any, step: str) -> None:
        """Wait until all processes have come, and leave the processor to those that still compute."""
        spins, start = 0, time.monotonic()
        while not request.Test():
            spins += 1
            if spins > SPINS:
                time.sleep(1e-4)
                if step != END and time.monotonic() - start > TIMEOUT:
                    # others that come now would go on alone: all that follows is refused
                    self.parted = (
                        f"process {self.rank} has waited {TIMEOUT:.0f} s in {step} for the others, "
                        "which make other calls, or none: each must make the same, also those of "
                        "derivatives. LDIV_DISTRIBUTED_TIMEOUT sets the seconds."
                    )
                    raise _agreed(RankError(self.parted))

    def common(self, numbers: Iterable[int], what: str) -> int | None:
        """The latest of these numbers that all have, or not the latest: what all have at the
        first two attempts. None if there is none.
        """
        mine = set(numbers)
        (negative,) = self.agree(f"a look for {what}", -max(mine, default=-1))
        if negative > 0:
            return None
        (missing,) = self.agree(f"another look for {what}", int(-negative not in mine))
        return None if missing else -negative

    # -- sums -----------------------------------------------------------------------

    def total(self, x: Any) -> Any:
        """The sum of arrays over all processes."""
        sent = np.array(x, order="C")  # of no axes, too
        result = np.empty_like(sent)
        self.comm.Allreduce(sent, result, op=mpi().SUM)
        return result

    def before(self, x: Any) -> Any:
        """The sum over the processes that come before this one."""
        sent, result = np.asarray(x, np.int64), np.zeros(np.shape(x), np.int64)
        self.comm.Exscan(sent, result, op=mpi().SUM)
        return result if self.rank else 0 * result

    def every(self, x: Any) -> list[Any]:
        """Gather x of each process, in their order, on all of them."""
        self.agree("an exchange of numbers")
        found: list[Any] = self.comm.allgather(x)
        return found

    def largest(self, x: float) -> float:
        """The largest of numbers; infinity, if one is NaN."""
        return float(self.comm.allreduce(float(x) if x == x else np.inf, op=mpi().MAX))


def _agreed(error: BaseException) -> Any:
    error.agreed = True  # type: ignore[attr-defined]
    return error


def _portable(error: BaseException | None) -> Exception:
    """An error that the other processes can unpickle."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    assert isinstance(error, Exception)
    return error
