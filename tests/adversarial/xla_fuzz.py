"""Calls of compiled programs as XLA makes them, and with what it never gives: answered, or an error.

`record` draws the calls of rules for dense and sparse matrices with the factors that they make;
`broken` changes words of a call, arguments and results: shapes, dtypes, one too many or too few,
numbers. Arrays of a factor are changed in shape and dtype alone, and are zeros or those of another
matrix: whoever could write to them could write to anything. `adversarial.native_fuzz` runs this, too.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

import ldiv
from ldiv.core.rules.compiled import CompiledCall, Record, offered
from ldiv.core.rules.finite import Finite
from ldiv.core.rules.linear import Matmul, Outer
from ldiv.core.rules.rule import Rule, program_of
from ldiv.rules.cholesky import Cholesky
from ldiv.rules.inverse import Inverse
from ldiv.rules.inverse_entries import InverseEntries
from ldiv.rules.lu import LU
from ldiv.rules.slogdet import SLogDet
from ldiv.rules.solve import Solve
from ldiv.structures.dense import dense
from ldiv.structures.symmetric import Symmetric
from ldiv.structures.triangular import triangular

Array = np.ndarray[Any, Any]
NUMBERS = {"i4": 4, "f4": 11, "f8": 12, "c8": 15, "c16": 18, "i8": 5, "u1": 6}  # of dtypes, XLA's
EXECUTE, STRING = 3, 4


def _structure(name: str, **fields: Any) -> Any:
    return type(name, (ctypes.Structure,), {"_fields_": list(fields.items())})


_head = {"struct_size": ctypes.c_size_t, "extensions": ctypes.c_void_p}
Buffer = _structure(
    "Buffer",
    **_head,
    dtype=ctypes.c_int,
    data=ctypes.c_void_p,
    rank=ctypes.c_int64,
    dims=ctypes.POINTER(ctypes.c_int64),
)
Span = _structure("Span", start=ctypes.c_char_p, length=ctypes.c_size_t)
Each = ctypes.POINTER(ctypes.c_void_p)
Kinds = ctypes.POINTER(ctypes.c_int)
Buffers = _structure("Buffers", **_head, count=ctypes.c_int64, kinds=Kinds, each=Each)
Attributes = _structure(
    "Attributes", **_head, count=ctypes.c_int64, kinds=Kinds, names=Each, each=Each
)
ErrorTold = _structure("ErrorTold", **_head, message=ctypes.c_char_p, code=ctypes.c_int)
Error = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(ErrorTold))
Version = _structure("Version", **_head, major=ctypes.c_int, minor=ctypes.c_int)
Api = _structure("Api", **_head, version=Version, internal=ctypes.c_void_p, error=Error)
Frame = _structure(
    "Frame",
    **_head,
    api=ctypes.POINTER(Api),
    context=ctypes.c_void_p,
    stage=ctypes.c_int,
    arguments=Buffers,
    results=Buffers,
    attributes=Attributes,
    future=ctypes.c_void_p,
)


class Call(NamedTuple):
    """The input of a call from XLA: the record that a program has for the call, and its arrays."""

    name: str
    record: Record
    arguments: tuple[Array, ...]
    results: tuple[Array, ...]
    factor: slice  # where among the arguments arrays of a factor are

    def run(self) -> str:
        """No words, or those of the error."""
        said: list[str] = []

        def error(told: Any) -> int:
            said.append(f"{told.contents.code}: {told.contents.message.decode(errors='replace')}")
            return 1

        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        handler = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(Frame))(
            get(offered[self.name], None)
        )
        api = Api(ctypes.sizeof(Api), None, Version(), None, Error(error))
        names, each = (
            _pointers([Span(x.encode(), len(x.encode())) for x in column])
            for column in (tuple(zip(*self.record, strict=True)) or ((), ()))
        )
        count = len(self.record)
        kinds = (ctypes.c_int * max(count, 1))(*[STRING] * count)
        attributes = Attributes(ctypes.sizeof(Attributes), None, count, kinds, names, each)
        given, found = _buffers(self.arguments), _buffers(self.results)
        frame = Frame(ctypes.sizeof(Frame), None, ctypes.pointer(api), None, EXECUTE)
        frame.arguments, frame.results, frame.attributes = given, found, attributes
        failed = handler(frame)
        assert bool(failed) == bool(said)
        return said[0] if said else ""


def _pointers(of: Sequence[Any]) -> Any:
    made = (ctypes.c_void_p * max(len(of), 1))(*(ctypes.addressof(x) for x in of))
    made.kept = of
    return made


def _buffers(arrays: Sequence[Array]) -> Any:
    each = [
        Buffer(
            ctypes.sizeof(Buffer),
            None,
            NUMBERS[x.dtype.str[1:]],
            x.ctypes.data,
            x.ndim,
            (ctypes.c_int64 * max(x.ndim, 1))(*x.shape),
        )
        for x in arrays
    ]
    kinds = (ctypes.c_int * max(len(each), 1))(*[1] * len(each))
    return Buffers(ctypes.sizeof(Buffers), None, len(each), kinds, _pointers(each))


# -- calls that programs make -----------------------------------------------------------------------


def record() -> list[Call]:
    """The calls of each rule that a program may make."""
    calls = [
        Call("ldiv_here_1", (("words", "a place"),), (), (np.full((), 77, np.int32),), slice(0))
    ]
    for letter in "fdFD":
        for batch in ((), (3,)):
            calls += _recorded(np.dtype(letter), batch)
    assert {call.name for call in calls} == set(offered)
    return calls


def _recorded(dtype: np.dtype[Any], batch: tuple[int, ...]) -> Iterator[Call]:
    n, rng = 6, np.random.default_rng(0)
    a = (rng.standard_normal((*batch, n, n)) + 12 * np.eye(n)).astype(dtype)
    a = (a + a.conj().mT) / 2
    b, one = rng.standard_normal((*batch, n, 2)).astype(dtype), np.ones(n, dtype)
    band = np.full(n, 4, dtype), -one[1:], -one[1:]
    q = ldiv.diags_array(band, offsets=[0, 1, -1])
    v = np.broadcast_to(q.data, (*batch, len(q.data))).copy()
    of_dense = (
        (dense(n, n), "gen"),
        (Symmetric(dense(n, n)), "pos"),
        (Symmetric(dense(n, n)), "her"),
    )
    for s, assume_a in of_dense:
        yield from _calls(Solve(s.view("H"), assume_a, "auto"), a, b)
        yield from _calls(Inverse(s, assume_a, "auto"), a)
    for s, assume_a in ((q.structure, "gen"), (Symmetric(q.structure), "pos")):
        yield from _calls(Solve(s.view("C"), assume_a, "auto"), v, b)
        yield from _calls(InverseEntries(s, assume_a), v)
    for s, assume_a, p in (
        *((*x, a) for x in of_dense),
        (q.structure, "gen", v),
        (Symmetric(q.structure), "pos", v),
        (Symmetric(q.structure), "her", v),
        (Symmetric(q.structure, "T"), "sym", v),
    ):
        yield from _calls(Solve(s, assume_a, "auto"), p, b[..., 0, :, :] if batch else b)
        yield from _calls(Solve(s, assume_a, "auto", vector=True), p, b[..., 0].copy())
        if s == dense(n, n) or p is v:  # others have the sign of det by other rules
            yield from _calls(SLogDet(s, assume_a, "auto"), p)
        yield from _calls(SLogDet(s, assume_a, "auto", sign=False), p)
    yield from _calls(Solve(triangular(n, True, "own").view("H"), "gen", "auto"), a, b)
    yield from _calls(Cholesky(), a)
    yield from _calls(Finite("a derivative"), b)
    many = np.tile(b, 9)  # columns
    for view in map(q.structure.view, "NH"):
        yield from _calls(Matmul(view), v, b)
        yield from _calls(Outer(view), many, many[..., ::-1].copy())
    yield from _calls(LU(), a[..., 1:, :].copy())


def _calls(rule: Rule, *flat: Array) -> Iterator[Call]:
    """Three calls: the first makes a factor, the second computes with it, the third answers."""
    call: CompiledCall | None = program_of(rule, *flat)
    assert call is not None, rule
    if call.members is None:
        given = *flat, *call.constants
        yield Call(call.name, call.record, given, results(call.own), slice(len(flat), len(flat)))
        return
    *stages, last = staged(call, *flat)
    for stage in stages:
        assert not stage.run()
        yield stage
    yield last
    yield last._replace(arguments=(*last.arguments, np.zeros((), np.int32)))


def staged(call: CompiledCall, *flat: Array) -> Iterator[Call]:
    """Each is to be run before the next one."""
    made: tuple[Array, ...] = ()
    if (factor := call.factor) is not None:
        made = results(factor.made(flat[0].shape[: flat[0].ndim - factor.axes]))
        yield Call(factor.name, factor.record, (flat[0], *factor.constants), made, slice(1, 1))
    own = results((*call.own, (call.members, np.dtype(np.int32))))
    at = slice(len(flat), len(flat) + len(made))
    given = (*flat, *made, *call.constants)
    yield Call(call.name, (*call.record, ("stage", "compute")), given, own, at)
    answered = results(call.own)
    given = (*flat, *own, *call.entries)
    yield Call(
        call.name, (*call.record, ("stage", "answer")), given, answered, slice(len(flat), len(flat))
    )


def results(specs: Any) -> tuple[Array, ...]:
    return tuple(np.full(shape, 77, dtype) for shape, dtype in specs)


# -- what is changed -------------------------------------------------------------------------------


def broken(rng: np.random.Generator, call: Call) -> Call:
    kind = rng.integers(6 if call.arguments else 2)
    if kind == 0:
        return call._replace(record=_broken_record(rng, call.record))
    if kind == 1:
        results = _broken_one(rng, call.results, slice(0, len(call.results)))
        return call._replace(results=results)
    if kind == 2:  # numbers
        i = int(rng.integers(len(call.arguments)))
        x = call.arguments[i].copy()
        if call.factor.start <= i < call.factor.stop:
            x[...] = 0
        elif x.dtype.kind == "i":
            x.flat[rng.integers(x.size)] = rng.choice([-1, 0, 1, x.size, 2**31 - 1, -(2**31)])
        else:
            with np.errstate(all="ignore"):
                numbers = [0, np.nan, np.inf, -1, 1e300, 3e38, 1e-310, 1e-30]
                x.flat[rng.integers(x.size)] = rng.choice(numbers)
        return call._replace(arguments=(*call.arguments[:i], x, *call.arguments[i + 1 :]))
    return call._replace(arguments=_broken_one(rng, call.arguments, call.factor))


def _broken_one(rng: np.random.Generator, arrays: tuple[Array, ...], zeros: slice) -> Any:
    """One array too many or too few, two exchanged, or one of another shape or dtype."""
    i, j = map(int, rng.integers(len(arrays), size=2))
    kind, before, x, after = rng.integers(8), arrays[:i], arrays[i], arrays[i + 1 :]
    if kind == 0:
        return (*before, *after)
    if kind == 1:
        return (*before, x.copy(), x, *after)
    if kind == 2:
        exchanged = [*arrays]
        exchanged[i], exchanged[j] = arrays[j], x
        return tuple(exchanged)
    shape, dtype = [*x.shape], x.dtype
    if kind == 3:
        dtype = np.dtype(str(rng.choice([*NUMBERS])))
    elif kind == 4 or not shape:
        shape.insert(int(rng.integers(len(shape) + 1)), int(rng.integers(4)))
    elif kind == 5:
        del shape[int(rng.integers(len(shape)))]
    else:
        axis = int(rng.integers(len(shape)))
        shape[axis] = int(rng.choice([0, 1, shape[axis] - 1, shape[axis] + 1, 2 * shape[axis]]))
    other = np.zeros(shape, dtype)
    if not zeros.start <= i < zeros.stop and x.size:
        other[...] = np.resize(x, shape).real if dtype.kind != "c" else np.resize(x, shape)
    return (*before, other, *after)


WORDS = [
    "N",
    "T",
    "H",
    "C",
    "L",
    "v",
    "m",
    "p",
    "compute",
    "answer",
    "factor",
    "7",
    "0",
    "-1",
    "solve",
    "lu",
    "inverse",
    "99999999999999999999",
]


def _broken_record(rng: np.random.Generator, record: Record) -> Record:
    """A field too few, too many, of another name, or with another text."""
    if not record:
        return (("what", "solve"),)
    fields, i, j = [*record], *map(int, rng.integers(len(record), size=2))
    if (kind := rng.integers(4)) == 0:
        del fields[i]
    elif kind == 1:
        fields[i] = (fields[i][0], fields[j][1][: rng.integers(len(fields[j][1]) + 1)])
    elif kind == 2:
        fields[i] = (fields[i][0], str(rng.choice(["", *WORDS])))
    else:
        fields[i] = (fields[j][0], fields[i][1])
    return tuple(fields)


def run(calls: list[Call], seed: int, count: int) -> Counter[str]:
    """Return the outcomes of `count` calls, of which every fourth is unchanged."""
    rng, came = np.random.default_rng(seed), Counter[str]()
    for _ in range(count):
        whole = calls[int(rng.integers(len(calls)))]
        call = whole._replace(results=tuple(x.copy() for x in whole.results))
        is_broken = rng.integers(4) > 0
        said = (broken(rng, call) if is_broken else call).run()
        assert is_broken or not said, (call.record, said)
        came["refused" if said else "answered"] += 1
    return came
