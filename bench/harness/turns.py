"""Side by side in processes of their own: contenders take turns, and one that is slow, fails or
gives a wrong number leaves the game.

Each contender waits in its process until it is its turn, so that it can neither disturb another nor
hang the benchmark; it times itself and says how much memory it took. The first turn does not count:
there its numbers are compared with those of the first contender. The order is reversed in every
other round.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from peers import contenders
from problems import systems

LIMIT = 60.0  # seconds for a call
# seconds for imports and the problem; and for the first call, which analyses and compiles
TO_START = 300.0
SLOW = 20  # times slower than the fastest
AGREE = 1e-6
GIB = 2**30


@dataclass
class Seen:
    """Seconds by contender, the memory in GiB that its first call took beyond what it held
    before, and why others are missing.
    """

    seconds: dict[str, list[float]] = field(default_factory=dict)
    memory: dict[str, float] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


def take_turns(names: Sequence[str], spec: tuple[Any, ...], rounds: int) -> Seen:
    """All that was seen on a problem."""
    seen = Seen()
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "problem"  # once, not by every process
        made.write_bytes(pickle.dumps(systems.make(*spec)))
        playing = _begin(names, made, seen)
    try:
        for i in range(1, rounds + 1):
            for name in list(playing)[:: 1 if i % 2 else -1]:
                if not _is_slow(name, seen.seconds):
                    _turn(name, i, playing, seen)
    finally:
        for player in playing.values():
            player.leave()
    return seen


def _begin(names: Sequence[str], made: Path, seen: Seen) -> dict[str, Player]:
    """The contenders whose first answers agree with that of the first of them; nobody begins before
    all are there.
    """
    absent = {name: what for name in names if (what := contenders.absent(name))}
    seen.missing |= {name: f"{what} is not installed" for name, what in absent.items()}
    invited = {name: Player(name, made) for name in names if name not in absent}
    started = {name: player.started() for name, player in invited.items()}
    problem, reference, playing = _problem(made), None, {}
    for name, player in invited.items():
        answer = started[name] if isinstance(started[name], str) else player.first()
        if reference is None and not isinstance(answer, str):
            reference = answer
        wrong = answer if isinstance(answer, str) else disagreement(problem, reference, answer)
        if wrong:
            seen.missing[name] = wrong
            player.leave()
        else:
            playing[name], seen.seconds[name], seen.memory[name] = player, [], player.memory
    return playing


def _turn(name: str, i: int, playing: dict[str, Player], seen: Seen) -> None:
    took = playing[name].turn(i)
    if isinstance(took, str):
        seen.missing[name] = took
        del seen.seconds[name]
        playing.pop(name).leave()
    else:
        seen.seconds[name].append(took)


def _is_slow(name: str, seconds: dict[str, list[float]]) -> bool:
    """One turn of such a contender says enough."""
    firsts = {other: turns[0] for other, turns in seconds.items() if turns}
    return name in firsts and firsts[name] > max(1.0, SLOW * min(firsts.values()))


class Player:
    """A contender in its process."""

    def __init__(self, name: str, made: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_play, args=(theirs, name, made), daemon=True)
        self._process.start()
        theirs.close()
        self.memory = 0.0

    def started(self) -> Any:
        """A sentence if it cannot."""
        return self._heard(TO_START)

    def first(self) -> Any:
        """(x, gradient in the values, in b) in the order of the problem, or what went wrong."""
        answer = self._asked(0, TO_START)
        if isinstance(answer, str):
            return answer
        self.memory, result = answer
        return result

    def turn(self, i: int) -> float | str:
        answer: float | str = self._asked(i, LIMIT)
        return answer

    def leave(self) -> None:
        self._process.kill()
        self._process.join()

    def _asked(self, i: int, limit: float) -> Any:
        try:
            self._pipe.send(i)
        except OSError:
            return "its process died"
        return self._heard(limit)

    def _heard(self, limit: float) -> Any:
        if not self._pipe.poll(limit):
            return f"more than {limit:g} s"
        try:
            return self._pipe.recv()
        except EOFError:
            return "its process died"


def _problem(made: Path) -> Any:
    return pickle.loads(made.read_bytes())


def _play(pipe: Any, name: str, made: Path) -> None:
    """The contender's side: sentences are failures."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"  # XLA tells how long it folds constants
    warnings.simplefilter("ignore")
    try:
        begin = contenders.ALL[name](contenders.Task.of(_problem(made)))
        before = _resident()
        pipe.send(True)
        pipe.recv()
        matrix, step = begin()
        _, result = _timed(step, matrix, 0)
        pipe.send((_peak() - before, _in_order(matrix, result)))
        del result
        while True:
            pipe.send(_timed(step, matrix, pipe.recv())[0])
    except ImportError as error:
        pipe.send(f"cannot be imported ({error})")
    except contenders.Declined as error:
        pipe.send(f"for {error}")
    except EOFError:
        return
    except Exception as error:
        pipe.send(
            f"{type(error).__name__}: {str(error).splitlines()[0][:150] if str(error) else ''}"
        )


def _timed(step: Any, matrix: Any, i: int) -> tuple[float, Any]:
    """Seconds, and the result, for values of which nothing is remembered from the turn before."""
    values = matrix.data * (1 + i / 1000)
    gc.collect()
    start = time.perf_counter()
    result = step(values)
    return time.perf_counter() - start, result


def _in_order(matrix: Any, result: Any) -> tuple[Any, ...]:
    """The answers as NumPy arrays; the gradient in the values by columns, as in the problem."""
    x, of_values, of_b = (None if part is None else np.asarray(part) for part in result)
    if of_values is not None:
        of_values = sp.csc_array(
            type(matrix)((of_values, matrix.indices, matrix.indptr), shape=matrix.shape)
        )
    return x, of_values, of_b


def disagreement(problem: Any, expected: Any, found: Any) -> str | None:
    """The disagreement of two answers. For a symmetric matrix the sum of the derivatives in a_ij
    and a_ji is compared: some read one triangle, some the mean of both.
    """
    worst = 0.0
    for ours, theirs in zip(expected, found, strict=True):
        if ours is None or theirs is None:
            continue
        if problem.assume_a != "gen" and sp.issparse(ours):
            ours, theirs = ours + ours.T, theirs + theirs.T
        largest = abs(ours).max()
        worst = (
            max(worst, float(abs(ours - theirs).max() / largest))
            if np.isfinite(abs(theirs).max())
            else np.inf
        )
    return None if worst <= AGREE else f"wrong: {worst:.0e} from ldiv"


def _resident() -> float:
    """GiB held now; 0 where nobody tells."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / GIB
    except OSError:
        return 0.0


def _peak() -> float:
    """Linux counts kilobytes, macOS bytes."""
    return (
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        * (1 if sys.platform == "darwin" else 1024)
        / GIB
    )
