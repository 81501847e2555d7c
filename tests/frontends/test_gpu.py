"""CUDA: dense, triangular, diagonal and sparse positive definite systems are solved on the device, with
derivatives; another sparse direct solve says what works instead.
"""

from __future__ import annotations

import gc
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import scipy.sparse

import ldiv

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available(),
        reason="this PyTorch sees no CUDA device: see PYTHON and VENV in the Makefile",
    ),
]

N = 40
SOLVES: dict[str, Callable[[Any, Any], Any]] = {
    "gen": ldiv.solve,
    "H": lambda a, b: ldiv.solve(a, b, trans="H"),
    "pos": lambda a, b: ldiv.solve(a @ a.mH, b, assume_a="pos"),
    "sym": lambda a, b: ldiv.solve(a + a.mT, b, assume_a="sym"),
    "lower": lambda a, b: ldiv.solve_triangular(a, b, lower=True),
    "unit": lambda a, b: ldiv.solve_triangular(a / N, b, unit_diagonal=True),
    "diagonal": lambda a, b: ldiv.solve(a, b, assume_a="diagonal"),
    "logabsdet": lambda a, b: ldiv.factorized(a).logabsdet(),
}


def problem(dtype: Any, batch: tuple[int, ...]) -> tuple[Any, Any]:
    draw = torch.Generator().manual_seed(0)
    a = torch.randn(*batch, N, N, generator=draw, dtype=dtype) + 20 * torch.eye(N, dtype=dtype)
    return a, torch.randn(N, 3, generator=draw, dtype=dtype)


def first_and_second(solve: Callable[[Any, Any], Any], device: str, a: Any, b: Any) -> list[Any]:
    """The value, the gradients, and the gradients of their norms."""
    args = [x.detach().to(device).requires_grad_() for x in (a, b)]
    y = solve(*args)
    loss = (y * y.conj()).real.sum()
    grads = torch.autograd.grad(loss, args, create_graph=True, allow_unused=True)
    size = sum((g * g.conj()).real.sum() for g in grads if g is not None)
    again = torch.autograd.grad(size, args, allow_unused=True)
    results = [x for x in (y, *grads, *again) if x is not None]
    assert all(x.device.type == device for x in results), "everything stays where it was"
    return [x.detach().cpu() for x in results]


@pytest.mark.parametrize("batch", [(), (3,)], ids=["one", "batch"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=["float64", "complex128"])
@pytest.mark.parametrize("name", SOLVES)
def test_cuda_agrees_with_the_cpu(name: str, dtype: Any, batch: tuple[int, ...]) -> None:
    a, b = problem(dtype, batch)
    for there, here in zip(
        *(first_and_second(SOLVES[name], device, a, b) for device in ("cuda", "cpu")), strict=True
    ):
        torch.testing.assert_close(there, here, rtol=1e-10, atol=1e-10)


def test_one_factorization_serves_the_adjoint() -> None:
    a, b = (x.cuda().requires_grad_() for x in problem(torch.float64, ()))
    ldiv.clear_cache()
    ldiv.solve(a, b).sum().backward()
    assert ldiv.cache_info().factorizations == 1


def test_a_sparse_direct_solve_says_what_works() -> None:
    values = torch.ones(3, dtype=torch.float64, device="cuda")
    A = ldiv.coo_array((values, ([0, 1, 2], [0, 1, 2])), shape=(3, 3))
    with pytest.raises(ldiv.EngineError, match="on cuda:0"):
        ldiv.solve(A, values, method="superlu")


def run(script: str, *words: str) -> list[dict[str, Any]]:
    """Run a script that other devices run as well, and return its lines of JSON."""
    told = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, Path(__file__).parents[1] / script, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, env=told)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def found() -> list[dict[str, Any]]:
    return run("on_pretend_device.py", "--cuda")


# built on eigh and svd, of which PyTorch asks itself whether they converged
ASKED_BY_TORCH = "eig|svd|norm|cond|pinv|lobpcg|polar|spectral|rank|orth|null|angles|procrustes"


def test_every_function(found: list[dict[str, Any]]) -> None:
    """Results stay on the device and are right in every mode, as on the pretend device."""
    assert len(found) > 150
    assert not [x for x in found if x["error"]]
    looked = [x for x in found if "off" in x]
    assert len(looked) > 50
    assert not [x for x in looked if x["elsewhere"] or x["off"] > 1e-10]


def test_waits(found: list[dict[str, Any]]) -> None:
    """PyTorch counts as the pretend device does, but for those of its own."""
    pretended = {x["name"]: x for x in run("on_pretend_device.py")}
    own = [x for x in found if not re.search(ASKED_BY_TORCH, x["name"])]
    told = {x["name"]: (x["waits"], pretended[x["name"]]["waits"]) for x in own if "waits" in x}
    assert len(told) > 60
    # rounding, which decides of a step more or less, is another there
    assert not {name: pair for name, pair in told.items() if pair[0] > pair[1] + 2}
    assert not [x for x in own if "unread" in x and (x["unread"] or x["far"] > 1e-10)]
    assert not [x for x in found if "waited" in x and x["waited"] > x["steps"] / 10 + 3]


# to rounding singular: the pivot that is exactly zero on the cpu is one of 1e-17 elsewhere
BY_ROUNDING = {"nearly singular, ignored", "log|det|"}


def test_what_was_believed_in_vain(found: list[dict[str, Any]]) -> None:
    hard = [x for x in found if "here" in x and x["name"] not in BY_ROUNDING]
    assert len(hard) > 40
    for x in hard:
        assert x["here"] == x["there"], x
        assert not x["kept"], x
        assert x.get("apart", 0) <= 1e-9, x
        assert x["or_nan"] <= 1e-9, x


def laplacian(m: int, dtype: Any) -> tuple[Any, Any]:
    """The pattern, and values on the cpu of a positive definite matrix of m^2 unknowns."""
    one = scipy.sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(m, m))
    K = (scipy.sparse.kronsum(one, one) + 0.01 * scipy.sparse.eye_array(m * m)).tocsr()
    return ldiv.asarray(K), torch.tensor(K.data).to(dtype)


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=["float64", "complex128"])
@pytest.mark.parametrize("method", ["cg", "minres", "bicgstab", "gmres"])
def test_iterations_agree_with_a_factorization(method: str, dtype: Any, columns: int) -> None:
    """Enough steps for a recorded one; value and gradient."""
    S, values = laplacian(20, dtype)
    promise = {"cg": "pos", "minres": "her"}.get(method, "gen")
    draw = torch.Generator().manual_seed(1)
    b = torch.randn(400, columns, generator=draw, dtype=dtype)

    def both(device: str, **how: Any) -> Any:
        p, f = (x.detach().to(device).requires_grad_() for x in (values, b))
        x = ldiv.solve(S.with_data(p), f, assume_a=promise, **how)
        return [y.cpu() for y in (x, *torch.autograd.grad((x.abs() ** 2).sum(), (p, f)))]

    for there, here in zip(both("cuda", method=method, rtol=1e-12), both("cpu"), strict=True):
        torch.testing.assert_close(there, here, rtol=1e-7, atol=1e-7 * float(here.abs().max()))


@pytest.mark.parametrize("batch", [(), (3,)], ids=["one", "batch"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=["float64", "complex128"])
def test_fronts_agree_with_the_cpu(dtype: Any, batch: tuple[int, ...]) -> None:
    S, values = laplacian(20, dtype)
    values = values * torch.arange(1, 4, dtype=dtype)[:, None] if batch else values
    draw = torch.Generator().manual_seed(1)
    b = torch.randn(400, 2, generator=draw, dtype=dtype)
    solves: list[Callable[[Any, Any], Any]] = [
        lambda v, b: ldiv.solve(S.with_data(v), b, assume_a="pos"),
        lambda v, b: ldiv.logdet(S.with_data(v), assume_a="pos"),
        lambda v, b: ldiv.inverse_diagonal(S.with_data(v), assume_a="pos"),
    ]
    for solve in solves:
        for there, here in zip(
            *(first_and_second(solve, device, values, b) for device in ("cuda", "cpu")), strict=True
        ):
            size = float(here.abs().max())
            torch.testing.assert_close(there, here, rtol=1e-9, atol=1e-9 * size)


def test_fronts_give_equal_bits() -> None:
    S, values = laplacian(60, torch.float64)
    A, b = S.with_data(values.cuda()), torch.ones(3600, dtype=torch.float64, device="cuda")
    first = ldiv.solve(A, b, assume_a="pos")
    for _ in range(5):
        assert torch.equal(first, ldiv.solve(A, b, assume_a="pos"))


def test_recorded_steps_leave_no_memory() -> None:
    S, values = laplacian(30, torch.float64)
    A, b = S.with_data(values.cuda()), torch.ones(900, dtype=torch.float64, device="cuda")
    sizes = []
    for i in range(60):
        ldiv.solve(A, b * (1 + i), assume_a="pos", method="cg")
        if i in (20, 59):
            gc.collect()
            sizes.append(torch.cuda.memory_allocated())
    assert sizes[1] <= sizes[0] + 4096


def test_steps_are_recorded_while_other_threads_work() -> None:
    S, values = laplacian(30, torch.float64)
    b = torch.ones(900, dtype=torch.float64, device="cuda")

    def solved(i: int) -> float:
        y = ldiv.solve(S.with_data(i * values.cuda()), b, assume_a="pos", method="cg")
        return float(y.sum()) * i

    with ThreadPoolExecutor(4) as pool:
        sums = list(pool.map(solved, range(1, 25)))
    assert max(sums) - min(sums) <= 1e-6 * abs(sums[0])


def test_a_user_s_product_runs_in_every_step() -> None:
    """A user's product may do what cannot be recorded."""
    S, values = laplacian(20, torch.float64)
    A, seen = S.with_data(values.cuda()), []

    def product(p: Any, x: Any) -> Any:
        seen.append(float(x.abs().sum()))
        return A @ x

    operator = ldiv.LinearOperator(product, shape=(400, 400), params=values.cuda())
    b = torch.ones(400, dtype=torch.float64, device="cuda")
    x = ldiv.solve(operator, b, assume_a="pos")
    torch.testing.assert_close(A @ x, b, rtol=1e-7, atol=1e-7)
    assert len(seen) > 30


@pytest.mark.parametrize("which", ["raise", "nan"])
def test_jax(which: str) -> None:
    jax = pytest.importorskip("jax")
    if not any(d.platform == "gpu" for d in jax.devices()):
        pytest.skip("this JAX sees no CUDA device")
    found = run("on_four_devices.py", "--cuda", which)
    assert len(found) > 11
    assert not [x for x in found if x["elsewhere"] or x["off"] > 1e-10]


def test_a_sparse_product_works() -> None:
    values = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, device="cuda", requires_grad=True)
    A = ldiv.coo_array((values, ([0, 1, 1], [0, 0, 1])), shape=(2, 2))
    y = A @ torch.ones(2, dtype=torch.float64, device="cuda")
    y.sum().backward()
    assert y.tolist() == [1.0, 5.0]
    assert values.grad.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("mixed", ["A", "b"])
def test_mixed_devices_are_refused(mixed: str) -> None:
    a, b = problem(torch.float64, ())
    a, b = (a.cuda(), b) if mixed == "A" else (a, b.cuda())
    with pytest.raises((TypeError, ValueError), match="cuda"):
        ldiv.solve(a, b)
