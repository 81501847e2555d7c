"""Calls of ldiv._native with what it does not expect: it answers, declines or raises, and goes on.

`record` runs solves, determinants and factors of dense and sparse matrices, and keeps the native
calls that they make; `broken` draws such a call with one or two arguments changed: other shapes,
dtypes, strides, index pointers, numbers, letters. Threads and forked processes do the same.
`make native-asan` runs this under AddressSanitizer and UndefinedBehaviorSanitizer, with a module
compiled for them at the path in LDIV_NATIVE_AT.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from collections import Counter
from collections.abc import Callable
from threading import Thread
from typing import Any

import numpy as np
import scipy.sparse as sp

if at := os.environ.get("LDIV_NATIVE_AT"):

    class _At:
        """Finds the module that was compiled for the sanitizers, in place of the installed one."""

        @staticmethod
        def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
            is_native = name == "ldiv._native"
            return importlib.util.spec_from_file_location(name, at) if is_native else None

    sys.meta_path.insert(0, _At)

import ldiv
from adversarial import xla_fuzz
from ldiv.engines.libraries import native, ordering
from ldiv.engines.selected import general
from ldiv.engines.selected.fronts import Fronts

Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
EXPECTED = TypeError, ValueError, BufferError, IndexError, OverflowError, MemoryError


class Recorder:
    """A native object that notes what is called of it, and its results in their turn."""

    def __init__(self, of: Any, calls: list[Call]) -> None:
        vars(self).update(of=of, calls=calls)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.of, name)
        return self._noted(found) if callable(found) else found

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.of, name, value)

    def _noted(self, f: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            plain = tuple(x.of if isinstance(x, Recorder) else x for x in args)
            self.calls.append((f, tuple(map(_copied, plain)), kwargs))
            return self._wrapped(f(*plain, **kwargs))

        return call

    def _wrapped(self, y: Any) -> Any:
        if isinstance(y, tuple):
            return tuple(map(self._wrapped, y))
        return Recorder(y, self.calls) if type(y).__module__.startswith("ldiv") else y


def _copied(x: Any) -> Any:
    return x.copy() if isinstance(x, np.ndarray) else x


def record() -> list[Call]:
    """The native calls of some problems."""
    calls: list[Call] = []
    saved, native.native = native.native, Recorder(native.native, calls)
    rng = np.random.default_rng(0)
    try:
        for dtype in "fdFD":
            for shape in ((4, 4), (3, 5, 5)):
                a = (rng.standard_normal(shape) + 6 * np.eye(shape[-1])).astype(dtype)
                b = rng.standard_normal((*shape[:-1], 2)).astype(dtype)
                s = (a @ a.conj().mT + (a @ a.conj().mT).conj().mT) / 2
                x, pull = ldiv.vjp(ldiv.solve, a, b)
                (
                    pull(x),
                    ldiv.solve(s, b, assume_a="pos"),
                    ldiv.inv(a),
                    ldiv.slogdet(a),
                    ldiv.lu_factor(a),
                )
                pullbacks(native.native, a, s, b, x)
            q = ldiv.diags_array(
                [np.full(8, 4, dtype), -np.ones(9, dtype)[:7], -np.ones(9, dtype)[:7]],
                offsets=[0, 1, -1],
            )
            v = np.ones(8, dtype)
            ldiv.solve(q, v), ldiv.logdet(q, assume_a="pos"), ldiv.solve(q, v, assume_a="pos")
            for kind in ("sym", "her"):
                F = ldiv.factorized(q, assume_a=kind, method="ldl")
                F.solve(v), F.logabsdet()
            _, pull = ldiv.vjp(
                lambda values, q=q: ldiv.logdet(q.with_data(values), assume_a="pos"), q.data
            )
            pull(np.ones((), q.data.real.dtype))
            both = general.factorize(Fronts(q.structure.pattern), q.structure.slot_values(q.data))
            (
                both.inverse_tangent(both.inverse_entries()),
                both.slogdet(),
                both.solve(v[:, None], "T"),
            )
        path = sp.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(22, 22))
        ordering.of_sum(ldiv.asarray(sp.kronsum(path, path)).structure.pattern)  # by dissection
    finally:
        native.native = saved
    return calls


def pullbacks(of: Any, a: Any, s: Any, b: Any, x: Any) -> None:
    """The calls of a front end in a backward pass."""
    for m, kind, form in ((a, "L", "N"), (s, "C", "S"), (s, "H", "S")):
        found, _ = of.factor(m, kind, 1)
        found.pullback(b, x, np.empty_like(x), np.empty_like(a), "N", form, 2)
        w, d = np.ones(a.shape[:-2], a.dtype), np.empty(a.shape[:-2], a.dtype)
        found.det(d), found.log_pullback(w, None, np.empty_like(a), 1)
        found.log_pullback(w, d, np.empty_like(a), 1)
    of_table(of, a.dtype, a.shape[:-2])


def of_table(of: Any, dtype: np.dtype[Any], batch: tuple[int, ...]) -> None:
    """Each row of the table of operations, of definite matrices where they are square."""
    rng, kinds = np.random.default_rng(0), {"r": dtype.type(0).real.dtype, "i": "i4", "l": "i8"}
    kinds["c"] = np.result_type(dtype, np.complex64)
    for name, (arrays, _, options) in of.operations().items():
        for turn in range(4):
            letters = "".join(of_one[turn % len(of_one)] for of_one in options)
            sizes = {"m": (5, 4, 3)[turn % 3], "n": 4, "k": 2}
            sizes["p"] = min(sizes["m"], 4) if any("m" in axes for _, axes, *_ in arrays) else 4
            # entries of the matrices of a quadratic program, its rows and its system
            k, m, bounds = (size * (turn < 3) for size in (2, sizes["m"], 4))
            sizes |= {
                "e": 4 * k,
                "d": 4 * m,
                "r": k + m + 2 * bounds or 1,
                "t": 4 + k + m + bounds,
                "f": 16,
            }
            given: list[Any] = []
            for _, axes, kind, is_optional in arrays:
                own = axes.replace("k", "") if "v" in letters else axes
                x = rng.standard_normal((*batch, *(sizes[axis] for axis in own)))
                x = x @ x.mT + 4 * np.eye(4) if own == "nn" else x
                x = x.astype(kinds.get(kind, dtype))
                given.append(None if is_optional and turn == 3 else x)
            getattr(of, name)(*given, *([letters] if options else []), 1 + turn % 2)


# -- what is changed -------------------------------------------------------------------------------


def broken_array(rng: np.random.Generator, x: np.ndarray[Any, Any]) -> Any:
    x = x.copy()
    kind = rng.integers(9) if x.ndim else rng.integers(3)
    if kind == 0:
        other = rng.choice(["f4", "f8", "c8", "c16", "i4", "i8", "?", "f2", ">f8", "O"])
        return np.zeros(x.shape, other)
    if kind == 1:
        return x.reshape(-1)[: rng.integers(0, x.size + 1)]
    if kind == 2:
        return np.zeros(tuple(rng.integers(0, 7, rng.integers(0, 4))), x.dtype)
    if kind == 3:
        return x.T if rng.integers(2) or not x.size else np.broadcast_to(x.flat[0], x.shape)
    if kind == 4:
        x.flags.writeable = False
        return x
    if kind == 5:
        return memoryview(x) if rng.integers(2) else x[..., ::-1]
    if not x.size:
        return x
    some = tuple(rng.integers(0, n, rng.integers(1, 4)) for n in x.shape)
    if len({len(i) for i in some}) > 1:
        some = tuple(i[:1] for i in some)
    if x.dtype.kind in "iu":
        x[some] = rng.choice([-1, 0, 1, 2, x.size, x.size + 1, 2**31 - 1, -(2**31)])
    else:
        with np.errstate(all="ignore"):
            x[some] = rng.choice([0, np.nan, np.inf, -np.inf, 1e300, 3e38, 1e-310, -1, 1e-30])
    return x


def broken(rng: np.random.Generator, x: Any) -> Any:
    if rng.integers(8) == 0:
        return rng.choice(np.array([None, 1.5, "N", b"", -1, True], object))
    if isinstance(x, np.ndarray):
        return broken_array(rng, x)
    if isinstance(x, bool):
        return not x
    if isinstance(x, int):
        return int(rng.choice([-1, 0, 1, 2, 100, 2**31 - 1, -(2**31)]))
    if isinstance(x, str):
        return str(rng.choice(["", "N", "T", "H", "L", "C", "S", "X", "NN", "LNTv", "UUNm", "\0"]))
    return x


def named(call: Call) -> str:
    return getattr(call[0], "__name__", str(call[0]))


def run(calls: list[Call], seed: int, count: int) -> Counter[str]:
    """Return the outcomes of `count` calls."""
    rng, came = np.random.default_rng(seed), Counter[str]()
    each: dict[str, list[Call]] = {}
    for call in calls:
        each.setdefault(named(call), []).append(call)
    kinds = [*each.values()]  # as often, whatever was recorded
    for _ in range(count):
        of = kinds[int(rng.integers(len(kinds)))]
        f, args, kwargs = of[int(rng.integers(len(of)))]
        given = list(map(_copied, args))
        for i in rng.integers(0, max(len(given), 1), rng.integers(0, 3)):
            if given:
                given[i] = broken(rng, given[i])
        try:
            y = f(*given, **kwargs)
            came["declined" if y is None or y is False else "answered"] += 1
        except EXPECTED:
            came["refused"] += 1
    return came


def in_child(calls: list[Call], seed: int, count: int) -> None:
    """The same in a process that was forked."""
    if (child := os.fork()) == 0:
        run(calls, seed, count)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, "a forked process failed"


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--calls", type=int, default=100_000)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    assert native.native is not None, native.why_not
    calls, share = record(), given.calls // 10
    names = Counter(map(named, calls))
    came = run(calls, given.seed, 6 * share)
    threads = [Thread(target=run, args=(calls, given.seed + k, share)) for k in (1, 2, 3)]
    for thread in threads:
        thread.start()
    in_child(calls, given.seed + 4, share // 2)  # while the threads are at work
    for thread in threads:
        thread.join()
    in_child(calls, given.seed + 5, share // 2)
    programs = xla_fuzz.run(xla_fuzz.record(), given.seed, 2 * share)
    assert min(programs.values()) > given.calls / 200, programs
    assert min(came[k] for k in ("answered", "declined", "refused")) > given.calls / 200, came
    print(f"{given.calls} calls of {dict(names)}: {dict(came)} in the first {6 * share}")
    print(f"{2 * share} calls of programs: {dict(programs)}")


if __name__ == "__main__":
    main()
