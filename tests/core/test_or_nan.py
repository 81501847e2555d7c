"""errstate(singular="nan"): what would raise is NaN in exactly that member of a batch, and nothing else
happens; the derivatives, of every order, follow.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apart
import numpy as np
import pytest

import ldiv
from ldiv.errors import is_of_numbers

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)

N = 4
rng = np.random.default_rng(0)
A = rng.standard_normal((5, N, N)) + N * np.eye(N)
S = A @ A.mT
B = rng.standard_normal((5, N, 1))
A[1], S[1] = 1, -S[1]  # singular; not positive definite
A[3, 0, 0] = S[3, 0, 0] = np.nan
B[4, 0] = np.inf

Args = tuple[Any, Any, Any]
FUNCTIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "solve": lambda a, s, b: ldiv.solve(a, b),
    "solve pos": lambda a, s, b: ldiv.solve(s, b, assume_a="pos"),
    "solve sym": lambda a, s, b: ldiv.solve(s, b, assume_a="sym"),
    "solve_triangular": lambda a, s, b: ldiv.solve_triangular(a, b, lower=True),
    "factorized": lambda a, s, b: ldiv.factorized(a).solve(b),
    "inv": lambda a, s, b: ldiv.inv(a),
    "det": lambda a, s, b: ldiv.det(a),
    "slogdet": lambda a, s, b: ldiv.slogdet(a)[1],
    "logdet": lambda a, s, b: ldiv.logdet(s, assume_a="pos"),
    "quad_form": lambda a, s, b: ldiv.quad_form(s, b),
    "trace_solve": lambda a, s, b: ldiv.trace_solve(a, s),
    "cholesky": lambda a, s, b: ldiv.cholesky(s),
    "lu_factor": lambda a, s, b: ldiv.lu_factor(a)[0],
    "qr": lambda a, s, b: ldiv.qr(a)[1],
    "lstsq": lambda a, s, b: ldiv.lstsq(a[..., :2], b)[0],
    "pinv": lambda a, s, b: ldiv.pinv(a[..., :2]),
    "eigh": lambda a, s, b: ldiv.eigh(s)[0],
    "svdvals": lambda a, s, b: ldiv.svdvals(a),
    "gaussian_logpdf": lambda a, s, b: ldiv.gaussian_logpdf(b[..., 0], covariance=s),
}
ON_HOST: dict[str, Callable[[Any, Any, Any], Any]] = {
    "ldl": lambda a, s, b: ldiv.ldl(s)[1],
    "solve_banded": lambda a, s, b: ldiv.solve_banded((1, 1), a[..., :3, :], b),
    "expm": lambda a, s, b: ldiv.expm(a),
    "solve_sylvester": lambda a, s, b: ldiv.solve_sylvester(a, s, s),
    "solve_qp": lambda a, s, b: ldiv.solve_qp(s, b[..., 0], full=True)[0],
    "cg": lambda a, s, b: ldiv.solve(s, b, assume_a="pos", method="cg"),
}


def second(f: Callable[..., Any], framework: str) -> Callable[..., tuple[Any, ...]]:
    """The value, its gradients, and their tangents."""
    func: Any = jax if framework == "jax" else torch.func
    loss = lambda *xs: f(*xs).sum()

    def all_of(*xs: Any) -> tuple[Any, ...]:
        gradient = func.grad(loss, (0, 1, 2))
        return f(*xs), *gradient(*xs), *func.jvp(gradient, xs, xs)[1]

    return all_of


def eager(f: Callable[..., Any], framework: str) -> Callable[..., list[Any]]:
    make = {"numpy": np.asarray, "torch": torch.tensor, "jax": jax.numpy.asarray}[framework]

    def on(*xs: Any) -> list[Any]:
        found = f(*map(make, xs))
        return [np.asarray(y) for y in (found if isinstance(found, tuple) else (found,))]

    return on


def compare(found: Any, f: Callable[..., Any], args: Args) -> set[int]:
    """Each member with what f gives it alone; which are refused."""
    bad = set()
    for i in range(len(args[0])):
        try:
            alone = f(*(x[i : i + 1] for x in args))
        except Exception as problem:
            if not is_of_numbers(problem):
                raise
            bad.add(i)
            assert any(np.isnan(y[i]).any() for y in found)
            continue
        for y, one in zip(found, alone, strict=True):
            np.testing.assert_allclose(y[i], one[0], rtol=1e-11, atol=1e-11)
    return bad


@pytest.mark.parametrize("framework", ["numpy", "torch"])
@pytest.mark.parametrize("name", [*FUNCTIONS, *ON_HOST])
def test_values(name: str, framework: str) -> None:
    f = eager((FUNCTIONS | ON_HOST)[name], framework)
    with ldiv.errstate(singular="nan"):
        found = f(A, S, B)
    assert compare(found, f, (A, S, B))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives(name: str) -> None:
    f = eager(second(FUNCTIONS[name], "torch"), "torch")
    with ldiv.errstate(singular="nan"):
        found = f(A, S, B)
    compare(found, f, (A, S, B))


SLOW = [name for name in FUNCTIONS if name != "cholesky"]


@pytest.mark.parametrize(
    "name", ["cholesky", *(pytest.param(x, marks=pytest.mark.exhaustive) for x in SLOW)]
)
def test_programs_without_python(name: str) -> None:
    """JAX's program for any device, exported, is NaN where PyTorch's kernels on the host raise."""
    with ldiv.errstate(singular="nan"):
        every = jax.jit(second(FUNCTIONS[name], "jax"))
        exported = jax.export.export(every, platforms=["cpu", "cuda", "tpu"])(A, S, B)
        expected = eager(second(FUNCTIONS[name], "torch"), "torch")(A, S, B)
    called = set(re.findall(r"custom_call @(\w+)", exported.mlir_module()))
    assert not [x for x in called if "callback" in x or "ldiv" in x]
    for y, other in zip(exported.call(A, S, B), expected, strict=True):
        np.testing.assert_allclose(y, other, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(
    "name", ["solve", "eigh", pytest.param("det", marks=pytest.mark.exhaustive)]
)
def test_eager_jax(name: str) -> None:
    with ldiv.errstate(singular="nan"):
        found, expected = (eager(FUNCTIONS[name], x)(A, S, B) for x in ("jax", "torch"))
    np.testing.assert_allclose(found, expected, rtol=1e-11)


def test_what_has_no_program_is_refused_in_words() -> None:
    for f in (lambda a: ldiv.ldl(a)[0], lambda a: ldiv.solve_banded((1, 1), a[:3], a[:, 0])):
        with ldiv.errstate(singular="nan"):
            with pytest.raises(ldiv.EngineError, match="in Python"):
                jax.jit(f).lower(S[0])
            assert np.isfinite(f(S[0])).all()
    with ldiv.errstate(singular="nan"), pytest.raises(ValueError, match="shape"):
        ldiv.solve(A, B[:, :2])


def test_the_choice_is_that_of_the_call() -> None:
    a, b = (torch.tensor(x, requires_grad=True) for x in (A, B))
    with ldiv.errstate(singular="nan"):
        x = ldiv.solve(a, b)
        F = ldiv.factorized(torch.tensor(A))
    g = torch.autograd.grad(x.sum(), a)[0]
    assert torch.isnan(g).flatten(1).all(1).tolist() == [False, True, False, True, True]
    assert torch.isnan(F.solve(torch.tensor(B))[:, 0, 0]).tolist() == [
        False,
        True,
        False,
        True,
        True,
    ]
    good = torch.tensor(A[:1], requires_grad=True)
    late = ldiv.solve(good, torch.tensor(B[:1])).sum()
    with ldiv.errstate(singular="nan"), pytest.raises(ValueError, match="finite"):
        torch.autograd.grad(late * torch.nan, good)


def test_an_exported_program_runs_without_ldiv(tmp_path: Path) -> None:
    """Saved, and loaded by a process that has never imported ldiv; its batch has any size."""
    pytest.importorskip("flatbuffers")
    (n,) = jax.export.symbolic_shape("n")
    shapes = [jax.ShapeDtypeStruct((n, *x.shape[1:]), float) for x in (A, B)]
    loss = lambda a, b: (ldiv.solve(a, b) ** 2).sum()
    with ldiv.errstate(singular="nan"):
        exported = jax.export.export(jax.jit(jax.grad(loss)), platforms=["cpu", "cuda"])(*shapes)
        expected = jax.jit(jax.grad(loss))(A, B)
    (tmp_path / "program").write_bytes(exported.serialize())
    np.savez(tmp_path / "arrays.npz", A=A, B=B, expected=expected)
    run = apart.run(
        f"""
import sys
import jax
import jax.export
import apart
import numpy as np
jax.config.update("jax_enable_x64", True)
program = jax.export.deserialize(open({str(tmp_path / "program")!r}, "rb").read())
x = np.load({str(tmp_path / "arrays.npz")!r})
np.testing.assert_allclose(program.call(x["A"], x["B"]), x["expected"], rtol=1e-11, atol=1e-11)
assert "ldiv" not in sys.modules
""",
        first="import jax",
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("framework", ["numpy", "torch", "jax"])
def test_the_others_are_to_the_last_bit_those_of_a_batch_without_refusals(framework: str) -> None:
    """One kernel and one shape: with a member in the places of those refused, under "raise"."""
    names = ("solve", "inv") if framework == "jax" else FUNCTIONS
    for name in names:
        f = FUNCTIONS[name]
        call = eager(second(f, "torch") if framework == "torch" else f, framework)
        with ldiv.errstate(singular="nan"):
            found = call(A, S, B)
        bad = np.isnan(np.concatenate([y.reshape(5, -1) for y in found], 1)).any(1)
        at = np.where(bad, np.argmin(bad), np.arange(5))
        for y, other in zip(found, call(A[at], S[at], B[at]), strict=True):
            np.testing.assert_array_equal(y[~bad], other[~bad], err_msg=name)


def test_the_others_in_a_program_are_to_the_last_bit_what_they_are_without_refusals() -> None:
    with ldiv.errstate(singular="nan"):
        program = jax.jit(jax.value_and_grad(lambda a, b: ldiv.solve(a, b).sum((0, 2))[0], (0, 1)))
        solve = jax.jit(ldiv.solve)
        at = np.array([0, 0, 2, 0, 0])
        (found, other) = (np.asarray(solve(*xs)) for xs in ((A, B), (A[at], B[at])))
        np.testing.assert_array_equal(found[[0, 2]], other[[0, 2]])
        assert np.isnan(found[[1, 3, 4]]).all()
        (_, found), (_, other) = program(A, B), program(A[at], B[at])
    for y, z in zip(found, other, strict=True):
        np.testing.assert_array_equal(np.asarray(y)[[0, 2]], np.asarray(z)[[0, 2]])


# -- loops and branches of JAX's programs ----------------------------------------------------------

CONTROLLED: dict[str, Callable[[Any, Any], Any]] = {
    "scan": lambda a, bs: jax.lax.scan(
        lambda x, b: (ldiv.solve(a + jax.numpy.diag(x), b),) * 2, 0 * bs[0], bs
    )[1],
    "map": lambda a, bs: jax.lax.map(lambda b: ldiv.solve(a, b), bs),
    "fori_loop": lambda a, bs: jax.lax.fori_loop(
        0, 3, lambda i, x: ldiv.solve(a, x + bs[i]), bs[0]
    ),
    "cond": lambda a, bs: jax.lax.cond(
        a[0, 0] > 0, lambda: ldiv.solve(a, bs[0]), lambda: ldiv.solve(a.T, bs[1])
    ),
    "while_loop": lambda a, bs: jax.lax.while_loop(
        lambda s: s[0] < 3, lambda s: (s[0] + 1, ldiv.solve(a, s[1])), (0, bs[0])
    )[1],
}


@pytest.mark.parametrize(
    "name",
    ["scan", *(pytest.param(x, marks=pytest.mark.exhaustive) for x in CONTROLLED if x != "scan")],
)
@ldiv.errstate(singular="nan")
def test_loops_and_branches_are_pure_xla(name: str) -> None:
    """Tangents are pure XLA, too, as are gradients where JAX differentiates the loop; the refused
    member is NaN.
    """
    pytest.importorskip("flatbuffers")
    f = CONTROLLED[name]
    loss = lambda a, bs: jax.numpy.sum(f(a, bs) ** 2)
    slope = loss if name == "while_loop" else jax.grad(loss)
    both = lambda a, bs: (f(a, bs), jax.jvp(lambda a: slope(a, bs), (a,), (a,))[1])
    g = jax.jit(jax.vmap(both, (0, None)))
    given = np.stack([A[0], A[1], A[2]]), np.ones((3, N))
    program = jax.export.export(g, platforms=("cpu", "cuda", "tpu"))(*given)
    assert "callback" not in program.mlir_module()
    for y in g(*given):
        bad = np.isnan(np.asarray(y)).reshape(3, -1)
        assert bad[1].all()
        assert not bad[[0, 2]].any()


# -- batches without members -------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [(0,), (2, 0)], ids=str)
@ldiv.errstate(singular="nan")
def test_of_no_member_nothing_is_refused(batch: tuple[int, ...]) -> None:
    a, b = np.zeros((*batch, N, N)), np.zeros((*batch, N, 1))
    for name, f in FUNCTIONS.items():
        y = f(a, a, b)
        there = torch.zeros(a.shape, dtype=torch.float64, requires_grad=True)
        z = f(there, there, torch.zeros(b.shape, dtype=torch.float64))
        assert tuple(z.shape) == tuple(y.shape), name
        if z.requires_grad:
            (g,) = torch.autograd.grad(z.abs().sum(), there)
            assert g.shape == there.shape, name
