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
from ldiv.engines.direct import cudss as direct
from ldiv.engines.libraries import cudss
from ldiv.structures.symmetric import Symmetric

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
    # cuDSS waits, too, under every policy
    theirs = ASKED_BY_TORCH + ("|sparse" if cudss.missing() is None else "")
    own = [x for x in found if not re.search(theirs, x["name"])]
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
        lambda v, b: ldiv.solve(S.with_data(v), b, assume_a="pos", method="fronts"),
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
    first = ldiv.solve(A, b, assume_a="pos", method="fronts")
    for _ in range(5):
        assert torch.equal(first, ldiv.solve(A, b, assume_a="pos", method="fronts"))


needs_cudss = pytest.mark.skipif(
    cudss.missing() is not None, reason="cuDSS is not installed: pip install ldiv[cuda13]"
)


def unsymmetric(m: int, dtype: Any, kind: str) -> tuple[Any, Any]:
    """A matrix of m^2 unknowns of a kind, with entries over three decades, and its values."""
    S, values = laplacian(m, dtype)
    rows, cols = torch.tensor(S.row).long(), torch.tensor(S.col).long()
    if kind == "gen":
        return S, values * torch.where(rows < cols, 2.0, 0.5)
    if kind == "pos":
        return S, values
    # an indefinite one; a phase makes it complex, Hermitian or symmetric
    values = values - 3.0 * (rows == cols)
    if dtype.is_complex and kind == "her":
        values = values * torch.exp(0.3j * torch.sign(rows - cols))
    return S, values * (1 + 0.2j) if dtype.is_complex and kind == "sym" else values


@needs_cudss
@pytest.mark.parametrize("batch", [(), (3,)], ids=["one", "batch"])
@pytest.mark.parametrize("kind", ["gen", "sym", "her", "pos"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=["float64", "complex128"])
def test_cudss_agrees_with_the_cpu(dtype: Any, kind: str, batch: tuple[int, ...]) -> None:
    """Each view, with first and second derivatives."""
    S, values = unsymmetric(20, dtype, kind)
    values = values * torch.arange(1, 4)[:, None] if batch else values
    b = torch.randn(400, 2, generator=torch.Generator().manual_seed(1), dtype=dtype)
    for trans in "NTH":

        def solve(v: Any, b: Any, trans: str = trans) -> Any:
            method = "cudss" if v.is_cuda else "auto"
            return ldiv.solve(S.with_data(v), b, assume_a=kind, method=method, trans=trans)

        for there, here in zip(
            *(first_and_second(solve, device, values, b) for device in ("cuda", "cpu")), strict=True
        ):
            size = float(here.abs().max())
            torch.testing.assert_close(there, here, rtol=1e-9, atol=1e-9 * size)


@needs_cudss
@pytest.mark.parametrize("kind", ["gen", "sym", "pos"])
def test_determinants_and_signs_of_cudss(kind: str) -> None:
    """The meaning of its pivots and of its inertia is known from its documentation alone."""
    S, values = unsymmetric(12, torch.float64, kind)
    F = ldiv.factorized(S.with_data(values.cuda()), assume_a=kind, method="cudss")
    a = S.with_data(values).toarray()
    sign, size = torch.linalg.slogdet(a)
    torch.testing.assert_close(F.logabsdet().cpu(), size)
    p = values.cuda().requires_grad_()
    found = ldiv.slogdet(S.with_data(p), assume_a=kind)
    torch.testing.assert_close(
        torch.stack([x.detach().cpu() for x in found]), torch.stack([sign, size])
    )
    structure = S.structure if kind == "gen" else Symmetric(S.structure, "H")
    made = direct.factor(direct.analyze(structure), structure, values.cuda(), kind)
    lam = torch.linalg.eigvalsh(a)
    counted = int((lam > 0).sum()), int((lam < 0).sum())
    assert made.signs() == (None if kind == "gen" else counted)


@needs_cudss
def test_what_cudss_refuses() -> None:
    S, values = laplacian(8, torch.float64)
    b = torch.ones(64, dtype=torch.float64, device="cuda")
    with pytest.raises(ldiv.NotPositiveDefiniteError):
        ldiv.solve(S.with_data(-values.cuda()), b, assume_a="pos", method="cudss")
    for kind in ("gen", "sym"):
        with pytest.raises(ldiv.SingularMatrixError):
            ldiv.solve(S.with_data(0 * values.cuda()), b, assume_a=kind, method="cudss")
    # zeros on the diagonal: large entries are matched to it
    at = torch.arange(64)
    A = ldiv.coo_array(
        (torch.ones(64, dtype=torch.float64, device="cuda"), (at, at.flip(0))), shape=(64, 64)
    )
    torch.testing.assert_close(ldiv.solve(A, b.cumsum(0), method="cudss"), b.cumsum(0).flip(0))


@needs_cudss
def test_cudss_on_another_stream_and_in_a_loop() -> None:
    S, values = unsymmetric(30, torch.float64, "gen")
    b = torch.ones(900, dtype=torch.float64, device="cuda")
    x = ldiv.solve(S.with_data(values.cuda()), b, method="cudss")
    with torch.cuda.stream(torch.cuda.Stream()):
        y = ldiv.solve(S.with_data(values.cuda()), b.clone(), method="cudss")
        torch.cuda.current_stream().synchronize()
    torch.testing.assert_close(x, y)
    free = []
    for i in range(200):
        ldiv.solve(S.with_data(values.cuda() * (1 + i)), b, method="cudss")
        if i in (20, 199):
            gc.collect()
            free.append(torch.cuda.mem_get_info()[0])
    assert free[0] - free[1] < 64 << 20


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
