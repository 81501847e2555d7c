"""The private parts of JAX that the front end uses are there; a new version shows which have moved."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import ldiv

jax = pytest.importorskip("jax")
private: Any = pytest.importorskip("ldiv.frontends.jax.private")

USED = {
    "mlir.emit_python_callback": "work on the host stands in compiled programs",
    "mlir.lower_fun": "rules are compiled as their kernels",
    "mlir.register_lowering": "rules are compiled as their kernels",
    "mlir.ir_constant": "calls that all processes make keep their order",
    "ad.primitive_jvps": "rules have forward mode",
    "ad.primitive_transposes": "rules have reverse mode",
    "batching.primitive_batchers": "rules have vmap",
    "Trace.process_primitive": "gradcheck changes the gauge of eigenvectors",
    "ir.InsertionPoint": "calls that all processes make keep their order",
    "ir.Attribute": "work on the host runs on one device of several",
}


@pytest.mark.parametrize("name", USED)
def test_it_is_there(name: str) -> None:
    module, attribute = name.split(".")
    assert hasattr(getattr(private, module), attribute), (
        f"this version of JAX has moved {name}, by which {USED[name]}: mend ldiv.frontends.jax.private"
    )


def test_what_is_missing_is_said_when_it_is_used() -> None:
    with pytest.raises(NotImplementedError, match=r"jax.core.Track.* ldiv has no gauge of vectors"):
        private.found(jax.core, "Track", "gauge of vectors")()


def test_nothing_of_it_is_used_elsewhere() -> None:
    inside = re.compile(r"jax\._src|jax\.interpreters|jaxlib[. ]|\w*_current_trace|core\.Trace\b")
    for file in Path(private.__file__).parent.glob("*.py"):
        lines = [
            line for line in file.read_text().splitlines() if "import" in line or "core." in line
        ]
        if file.name != "private.py":
            assert not inside.search("\n".join(lines)), file.name


def test_what_a_scan_holds_and_carries() -> None:
    def looped(x: Any, held: Any) -> Any:
        step = lambda carry, y: ((carry[0] + held * y, 2 * carry[1]), y)
        return jax.lax.scan(step, (0.0, x), x)

    program = jax.make_jaxpr(looped)(jax.numpy.ones(3), 2.0)
    (scan,) = (eqn for eqn in program.eqns if eqn.primitive.name == "scan")
    consts, carry = private.scan_counts(scan.params)
    assert consts + carry + 1 == len(scan.invars)
    assert carry == 2, "this version of JAX keeps the counts of a scan elsewhere: mend scan_counts"


def test_what_is_lowered_is_kept_with_its_module() -> None:
    fields = private.mlir.ModuleContext.__annotations__
    assert "cached_primitive_lowerings" in fields, (
        "this version of JAX has moved ModuleContext.cached_primitive_lowerings, by which a program"
        " has one place for all answers of a block and calls of all processes keep their order: mend"
        " lowered_calls"
    )
    if not ldiv.jax_export_checks():  # ldiv is not compiled
        return
    a, b = jax.numpy.eye(3) + 1, jax.numpy.ones(3)
    ends = lambda a: ldiv.solve(a, b).sum() + ldiv.slogdet(a)[1]
    for _ in range(2):  # nothing is left of another module
        text = jax.jit(lambda a: ends(a)).lower(a).as_text()
        assert [text.count(of) for of in ("@ldiv_here", '"answer"')] == [1, 2]


def test_a_lowering_may_ask_for_devices() -> None:
    from jax._src import dispatch

    from ldiv.frontends.jax.graph.rule_primitive import rule_p

    assert rule_p in getattr(dispatch, "prim_requires_devices_during_lowering", ()), (
        "this version of JAX keeps elsewhere which primitives are lowered for devices, without which"
        " batches over several of them are gathered: mend lowered_for_devices"
    )


@pytest.mark.skipif(
    jax.__version_info__[:2] != (0, 10), reason="a version that may ask in other words"
)
def test_reverse_mode_makes_no_trace_of_the_jvp(monkeypatch: pytest.MonkeyPatch) -> None:
    from ldiv.frontends.jax.graph.rule_primitive import rule_p

    monkeypatch.delitem(private.ad.primitive_jvps, rule_p)
    x = jax.numpy.ones(2)
    for transform in (jax.grad, lambda f: jax.jit(jax.grad(f))):
        found = transform(lambda a: ldiv.solve(jax.numpy.diag(a), x).sum())(2 * x)
        assert (found == -x / 4).all()


def test_without_what_makes_eager_calls_fast_they_are_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a, b = jax.numpy.eye(3) + 1, jax.numpy.ones(3)

    def found() -> list[Any]:
        f = jax.value_and_grad(lambda a: ldiv.solve(a, b).sum())
        return jax.tree.leaves((ldiv.solve(a, b), ldiv.lu_factor(a), ldiv.inv(a), f(a)))

    expected = found()
    monkeypatch.setattr(private, "_put", None)
    monkeypatch.setattr(private, "is_top_level", lambda: False)
    for x, y in zip(found(), expected, strict=True):
        assert (x.dtype, x.committed) == (y.dtype, y.committed)
        assert (x == y).all()
