"""cuDSS by its interface, on a library that has it and computes on the host: answers in every view and
mode beside NumPy's, errors, ownership, and what is left behind.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from ctypes import CDLL, byref, c_int, c_int64, c_size_t, c_void_p
from typing import Any

import fake_cudss
import numpy as np
import pytest
import scipy.sparse as sp
from adversarial.case import Wrong
from adversarial.problems import draw
from adversarial.solves import Solve, right_hand_sides

import ldiv
from ldiv.engines.direct import cudss
from ldiv.engines.libraries import cudss as library
from ldiv.structures.symmetric import Symmetric

torch = pytest.importorskip("torch")
needs_compiler = pytest.mark.skipif(
    fake_cudss.COMPILER is None, reason="no C++ compiler for the library that is tested with"
)
DTYPES = ("float32", "float64", "complex64", "complex128")
VIEWS = {"N": lambda a: a, "T": lambda a: a.T, "H": lambda a: a.conj().T}
NO_MEMORY, FAILED = 2, 5


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The library in place of the real one; nothing was misused in it, and nothing is left in it."""
    if fake_cudss.COMPILER is None:
        pytest.skip("no C++ compiler for the library that is tested with")
    ldiv.clear_cache()
    found = fake_cudss.install(monkeypatch.setattr)
    yield found
    ldiv.clear_cache()
    gc.collect()
    assert found.fake_misuse() == b""
    assert set(fake_cudss.alive(found).values()) == {0}
    monkeypatch.undo()
    fake_cudss.forget()


def dense(kind: str, n: int, dtype: Any, seed: int = 0) -> Any:
    """A matrix of a kind; indefinite unless it is positive."""
    rng = np.random.default_rng(seed)
    a = sp.random_array((n, n), density=0.3, rng=rng).toarray()
    if np.dtype(dtype).kind == "c":
        a = a * np.exp(2j * np.pi * rng.random((n, n)))
    if kind == "gen":
        return (a + 3 * np.eye(n)).astype(dtype)
    signs = np.full(n, float(n)) if kind == "pos" else np.where(np.arange(n) % 3, 4.0, -4.0)
    mirror = a.T if kind == "sym" else a.conj().T
    return (a + mirror + np.diag(signs)).astype(dtype)


def sparse(a: Any) -> Any:
    """A matrix whose entries are in no order, some of them in two halves, and its values in torch."""
    a = sp.coo_array(a)
    v = np.append(a.data, a.data) / 2
    order = np.random.default_rng(1).permutation(len(v))
    at = np.append(a.row, a.row)[order], np.append(a.col, a.col)[order]
    A = ldiv.coo_array((v[order], at), shape=a.shape)
    return A, torch.from_numpy(A.data)


def laplacian(m: int, shift: float = 0.1) -> Any:
    one = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(m, m))
    A = ldiv.asarray(sp.coo_array(sp.kronsum(one, one) + shift * sp.eye_array(m * m)))
    return A, torch.from_numpy(A.data)


@pytest.mark.parametrize("columns", [None, 1, 5])
@pytest.mark.parametrize("kind", ["gen", "sym", "her", "pos"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_kind_in_every_view(fake: Any, dtype: str, kind: str, columns: int | None) -> None:
    a = dense(kind, 13, dtype)
    A, v = sparse(a)
    b = np.random.default_rng(2).standard_normal((13, columns or 1)).astype(dtype)
    b = b if columns else b[:, 0]
    for trans, view in VIEWS.items():
        x = ldiv.solve(
            A.with_data(v), torch.from_numpy(b), assume_a=kind, method="cudss", trans=trans
        )
        right = np.linalg.solve(view(a.astype(np.result_type(dtype, "d"))), b)
        x = x.numpy()
        assert x.dtype == dtype
        assert np.abs(x - right).max() <= 200 * np.finfo(dtype).eps * np.abs(right).max()
    assert fake.fake_executed(fake_cudss.ANALYSIS) == 1
    # one factorization serves all views where it is still alive
    assert fake.fake_executed(fake_cudss.FACTORIZATION) == 1


def test_half_of_a_symmetric_matrix_is_read(fake: Any) -> None:
    A, _ = laplacian(4)
    for structure, count in (
        (A.structure, A.nnz),
        (Symmetric(A.structure, "H"), (A.nnz + 16) // 2),
    ):
        analysis = cudss.analyze(structure)
        kind = "her" if count < A.nnz else "gen"
        solver = analysis.solver(kind, A.data[None])
        assert len(solver._pattern[1]) == count


@pytest.mark.parametrize("kind", ["gen", "sym", "pos"])
@pytest.mark.parametrize(
    ("own", "of_b"), [((3,), ()), ((3,), (3,)), ((2, 3), (3,)), ((3,), (4, 3)), ((2, 1), (2, 5))]
)
def test_batches(fake: Any, kind: str, own: tuple[int, ...], of_b: tuple[int, ...]) -> None:
    a = dense(kind, 8, "complex128" if kind == "gen" else "float64")
    A, v = sparse(a)
    scale = torch.arange(1.0, 1 + np.prod(own), dtype=torch.float64).reshape(*own, 1)
    b = np.random.default_rng(0).standard_normal((*of_b, 8, 2)).astype(a.dtype)
    for trans, view in VIEWS.items():
        x = ldiv.solve(
            A.with_data(scale * v), torch.from_numpy(b), assume_a=kind, method="cudss", trans=trans
        )
        right = np.linalg.solve(view(a) * scale[..., None].numpy(), b)
        np.testing.assert_allclose(x, right, rtol=1e-11, atol=1e-12)
    assert fake.fake_executed(fake_cudss.FACTORIZATION) == 1


def functions(A: Any, kind: str) -> dict[str, Any]:
    promise = {"assume_a": kind}
    return {
        "solve": lambda v, b: ldiv.solve(A.with_data(v), b, method="cudss", **promise),
        "adjoint": lambda v, b: ldiv.solve(A.with_data(v), b, method="cudss", trans="H", **promise),
        "quad_form": lambda v, b: ldiv.quad_form(A.with_data(v), b, method="cudss", **promise),
    }


@pytest.mark.parametrize("name", ["solve", "adjoint", "quad_form"])
@pytest.mark.parametrize("kind", ["gen", "sym", "her", "pos"])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_every_mode_beside_the_host(fake: Any, dtype: str, kind: str, name: str) -> None:
    """Value, gradient, its gradient, tangent, and both under torch.func: those of SuperLU."""
    A, v = sparse(dense(kind, 9, dtype))
    b = torch.from_numpy(np.random.default_rng(3).standard_normal((9, 2)).astype(dtype))
    if name == "quad_form":
        b = b[:, 0]

    def modes(f: Any) -> list[Any]:
        p, q = v.clone().requires_grad_(), b.clone().requires_grad_()
        y = f(p, q)
        g = torch.autograd.grad((y.abs() ** 2).sum(), (p, q), create_graph=True)
        again = torch.autograd.grad(sum((x.abs() ** 2).sum() for x in g), (p, q))

        def loss(p: Any) -> Any:
            return (f(p, b).abs() ** 2).sum()

        tangent = torch.func.jvp(lambda p: f(p, b), (v,), (v.flip(0).conj_physical() + v,))[1]
        mapped = torch.func.vmap(torch.func.grad(loss))(torch.stack([v, 2 * v]))
        return [y, *g, *again, tangent, mapped]

    by_host = functions(A, kind)[name]
    here = modes(by_host)
    assert fake.fake_executed(fake_cudss.SOLVE) > 4
    promise = {"assume_a": kind, "method": "superlu"}
    host = {
        "solve": lambda v, b: ldiv.solve(A.with_data(v), b, **promise),
        "adjoint": lambda v, b: ldiv.solve(A.with_data(v), b, trans="H", **promise),
        "quad_form": lambda v, b: ldiv.quad_form(A.with_data(v), b, **promise),
    }[name]
    for x, y in zip(here, modes(host), strict=True):
        assert float((x - y).detach().abs().max()) <= 1e-10 * float(y.detach().abs().max())


def factor_of(a: Any, kind: str, batch: int = 0) -> Any:
    A, _ = sparse(a)
    structure = (
        A.structure if kind == "gen" else Symmetric(A.structure, "T" if kind == "sym" else "H")
    )
    p = A.data * np.arange(1, 1 + batch)[:, None] if batch else A.data
    return cudss.factor(cudss.analyze(structure), structure, p, kind)


@pytest.mark.parametrize("kind", ["gen", "sym", "her", "pos"])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_determinants_and_signs(fake: Any, dtype: str, kind: str) -> None:
    a = dense(kind, 11, dtype)
    F, (sign, size) = factor_of(a, kind), np.linalg.slogdet(a)
    assert float(F.logabsdet()) == pytest.approx(size, rel=1e-12)
    eigenvalues = np.linalg.eigvalsh(a)
    signs = int((eigenvalues > 0).sum()), int((eigenvalues < 0).sum())
    if kind in ("her", "pos") or (dtype == "float64" and kind == "sym"):
        assert F.signs() == signs
    else:
        assert F.signs() is None
    assert F.slogdet()[0] == pytest.approx(sign)
    of_batch = factor_of(a, kind, batch=3)
    shifts = 11 * np.log(np.arange(1, 4))
    np.testing.assert_allclose(of_batch.logabsdet(), size + shifts, rtol=1e-12)
    assert of_batch.signs() is None


def test_a_determinant_that_is_not_accurate_is_refused(fake: Any) -> None:
    """Pivots that are zero where they are: a solve has them matched, a determinant does not."""
    a = np.roll(np.diag(np.arange(1.0, 10)), 1, axis=1)
    A, v = sparse(a)
    F = ldiv.factorized(A.with_data(v), method="cudss")
    np.testing.assert_allclose(a @ F.solve(torch.ones(9, dtype=torch.float64)).numpy(), 1)
    with pytest.raises(ldiv.EngineError, match="no accurate determinant of this matrix"):
        F.logabsdet()


SINGULAR = np.ones((3, 3))
SADDLE = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]])
REFUSED = {
    "singular": (SINGULAR, "gen", ldiv.SingularMatrixError, "cuDSS found"),
    "singular, symmetric": (SINGULAR, "sym", ldiv.SingularMatrixError, "cuDSS found"),
    "singular, positive": (SINGULAR, "pos", ldiv.NotPositiveDefiniteError, "leading minor"),
    "indefinite": (SADDLE + 1e-3 * np.eye(3), "pos", ldiv.NotPositiveDefiniteError, "minor"),
    "NaN": (SADDLE * np.nan, "gen", ValueError, "finite"),
    "not symmetric": (SADDLE + np.triu(SINGULAR), "sym", ldiv.NotSymmetricError, "promised"),
    "an empty row": (np.diag([1.0, 0.0, 1.0]), "gen", ldiv.SingularMatrixError, "without entries"),
}


@pytest.mark.parametrize("which", REFUSED)
def test_refusals(fake: Any, which: str) -> None:
    a, kind, error, words = REFUSED[which]
    A, v = sparse(a)
    b = torch.ones(3, dtype=torch.float64)
    with pytest.raises(error, match=words):
        ldiv.solve(A.with_data(v), b, assume_a=kind, method="cudss")


def test_nothing_is_wrong_among_hard_matrices(fake: Any) -> None:
    """Regular ones may be refused: pivots of the library stay inside of small blocks."""
    outcomes: Counter[str] = Counter()
    for number in range(150):
        rng = np.random.default_rng([7, number])
        problem = draw(rng, 30)
        kind = str(
            rng.choice([k for k in problem.assumptions if k in ("gen", "sym", "her", "pos")])
        )
        trans = str(rng.choice(["N", "T", "H"]))
        b, c = right_hand_sides(rng, problem, trans)
        try:
            outcomes[Solve(problem, "coo", kind, trans, "cudss", b, c).check()] += 1
        except Wrong as wrong:
            if "regular, and refused" not in wrong.complaint:
                raise
            outcomes["refused"] += 1
    assert outcomes["regular: solved"] > outcomes["refused"]
    assert outcomes["singular: refused"] > 20


def test_one_of_a_batch_is_refused(fake: Any) -> None:
    A, v = laplacian(3)
    b = torch.ones(9, dtype=torch.float64)
    both = A.with_data(torch.stack([v, -v]))
    with pytest.raises(ldiv.NotPositiveDefiniteError):
        ldiv.solve(both, b, assume_a="pos", method="cudss")
    with ldiv.errstate(singular="nan"):
        x = ldiv.solve(both, b, assume_a="pos", method="cudss")
    assert x.isnan().all(-1).tolist() == [False, True]


def test_pivots_that_were_raised_are_refined_or_matched(fake: Any) -> None:
    """Zeros on the diagonal: the second attempt matches entries of these values to it."""
    rng = np.random.default_rng(0)
    a = np.roll(np.diag(rng.uniform(1, 2, 30)), 1, axis=1) + np.diag(rng.uniform(1, 2, 28), 2)
    A, v = sparse(a)
    b = torch.from_numpy(rng.standard_normal(30))
    x, info = ldiv.solve(A.with_data(v), b, method="cudss", info=True)
    np.testing.assert_allclose(x, np.linalg.solve(a, b), rtol=1e-11)
    assert info.backward_error < 1e-15
    assert fake.fake_executed(fake_cudss.ANALYSIS) == 2


@pytest.mark.parametrize("spread", [1e-30, 1e8])
def test_units_do_not_count(fake: Any, spread: float) -> None:
    """The library compares pivots with a number of its own."""
    for kind in ("gen", "sym", "pos"):
        a = dense(kind, 12, "float64")
        rng = np.random.default_rng(0)
        d = spread * 10.0 ** rng.integers(-4, 4, 12)
        e = d if kind != "gen" else 10.0 ** rng.integers(-4, 4, 12)
        A, v = sparse(d[:, None] * a * e)
        f = rng.standard_normal(12)
        y = ldiv.solve(A.with_data(v), torch.from_numpy(d * f), assume_a=kind, method="cudss")
        x = np.linalg.solve(a, f)
        assert np.abs(e * y.numpy() - x).max() < 1e-12 * np.abs(x).max()


def test_lack_of_memory_says_how_much_was_asked(fake: Any) -> None:
    A, v = laplacian(4)
    b = torch.ones(16, dtype=torch.float64)
    for phase, words in ((fake_cudss.FACTORIZATION, "2 MiB on the device"), (3, "the analysis")):
        fake.fake_fail(phase, NO_MEMORY)
        fake.fake_fail(fake_cudss.REFACTORIZATION, NO_MEMORY)
        structure = A.structure
        with pytest.raises(ldiv.EngineError, match=f"not enough memory: .*{words}"):
            cudss.factor(cudss.analyze(structure), structure, A.data, "gen")
        fake.fake_reset()
    # what dead factors hold is given up first
    ldiv.solve(A.with_data(v), b, method="cudss")
    assert fake_cudss.alive(fake)["data"] == 1
    other, w = laplacian(5)
    fake.fake_fail(fake_cudss.FACTORIZATION, NO_MEMORY)
    ldiv.solve(other.with_data(w), torch.ones(25, dtype=torch.float64), method="cudss")
    assert fake_cudss.alive(fake)["data"] == 1


def test_other_failures_are_named(fake: Any) -> None:
    A, v = laplacian(3)
    fake.fake_fail(fake_cudss.SOLVE, FAILED)
    with pytest.raises(ldiv.EngineError, match="cudssExecute says: the device failed"):
        ldiv.solve(A.with_data(v), torch.ones(9, dtype=torch.float64), method="cudss")


def test_a_living_factor_is_not_overwritten(fake: Any) -> None:
    """Two factors of one pattern have a solver each; one that is free serves the next matrix."""
    A, v = laplacian(4)
    b = torch.ones(16, dtype=torch.float64)
    one, two = (ldiv.factorized(A.with_data(i * v), method="cudss") for i in (1, 2))
    assert torch.allclose(one.solve(b), 2 * two.solve(b))
    assert fake.fake_executed(fake_cudss.ANALYSIS) == 2
    del one
    gc.collect()
    three = ldiv.factorized(A.with_data(4 * v), method="cudss")
    assert fake.fake_executed(fake_cudss.ANALYSIS) == 2
    assert fake.fake_executed(fake_cudss.REFACTORIZATION) == 1
    assert torch.allclose(two.solve(b), 2 * three.solve(b))
    del two, three


def test_values_changed_in_place_change_no_factor(fake: Any) -> None:
    A, v = laplacian(4)
    b = torch.ones(16, dtype=torch.float64)
    F = ldiv.factorized(A.with_data(v), method="cudss")
    before = F.solve(b)
    v *= 3
    assert torch.equal(F.solve(b), before)
    x = ldiv.solve(A.with_data(v), b, method="cudss")
    assert torch.allclose(3 * x, before)
    b *= 2
    assert torch.allclose(3 * x, before)


def test_threads_share_a_factor_and_a_pattern(fake: Any) -> None:
    A, v = laplacian(4)
    b = torch.ones(16, dtype=torch.float64)
    F = ldiv.factorized(A.with_data(v), method="cudss")
    x = F.solve(b)

    def off(i: int) -> float:
        y = ldiv.solve(A.with_data(i * v), b, method="cudss", trans="NTH"[i % 3])
        return max(float((z - x).abs().max()) for z in (i * y, F.solve(i * b) / i))

    with ThreadPoolExecutor(4) as pool:
        assert max(pool.map(off, range(1, 60))) < 1e-13


def test_indices_of_64_bits(fake: Any) -> None:
    indptr, indices = np.array([0, 1, 2]), np.array([1, 0])
    solver = library.Solver(None, "gen", indptr, indices, np.array([[2.0, 4.0]]), "matched")
    solver.factor(np.array([[2.0, 4.0]]))
    x, b = np.zeros((1, 1, 2)), np.array([[[2.0, 8.0]]])
    solver.solve(x, b, False, False)
    assert x.tolist() == [[[2.0, 1.0]]]
    assert (solver.failed, solver.perturbed, solver.nbytes) == (False, 0, 32)


def test_a_loop_leaves_nothing(fake: Any) -> None:
    A, v = laplacian(3)
    p = v.clone().requires_grad_()
    for i in range(200):
        x = ldiv.solve(A.with_data(p * (1 + i)), torch.ones(9, dtype=torch.float64), method="cudss")
        x.sum().backward()
    del x
    gc.collect()
    assert fake.fake_executed(fake_cudss.ANALYSIS) <= 2
    assert max(fake_cudss.alive(fake).values()) <= library.IDLE
    assert ldiv.cache_info().entries == 0
    # as many patterns, of which the last few are kept
    for m in range(2, 2 + 3 * library.IDLE):
        A, v = laplacian(m)
        ldiv.solve(A.with_data(v), torch.ones(m * m, dtype=torch.float64), method="cudss")
    gc.collect()
    assert fake_cudss.alive(fake)["data"] == library.IDLE


def test_the_stream_of_the_arrays_is_set(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from contextlib import nullcontext

    from ldiv.core.frameworks.dispatch import frontend_of

    A, v = laplacian(3)
    for stream in (0x5EED, 0x5EED, 0xFEED):
        monkeypatch.setattr(
            frontend_of(np.ones(1)).dense, "stream", lambda x, own=stream: nullcontext(own)
        )
        ldiv.solve(A.with_data(v), torch.ones(9, dtype=torch.float64), method="cudss")
        assert fake.fake_stream() == stream
    # work of a dead factor may wait on its stream: another stream does not overwrite it
    assert fake.fake_executed(fake_cudss.ANALYSIS) == 2


@needs_compiler
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_is_told() -> None:
    """A child makes no calls on handles of its parent, whose factors live on."""
    code = """
import fake_cudss, numpy as np, os, ldiv
from ldiv.engines.direct import cudss
fake = fake_cudss.install()
A = ldiv.coo_array((np.array([2.0, 1.0, 3.0]), ([0, 0, 1], [0, 1, 1])), shape=(2, 2))
F, b = cudss.factor(cudss.analyze(A.structure), A.structure, A.data, "gen"), np.ones((2, 1))
if os.fork() == 0:
    try:
        F.solve(b, "N")
    except ldiv.EngineError as error:
        print("forked" in str(error), flush=True)
    del F
    os._exit(0)
os.wait()
print(np.allclose(A.toarray() @ F.solve(b, "N"), 1), fake.fake_misuse())
"""
    assert run(code) == ["True", "True b''"]


def run(code: str) -> list[str]:
    """The lines that a process prints."""
    told = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, env=told)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_an_old_version_is_declined(fake: Any) -> None:
    fake.fake_version(0)
    library.missing.cache_clear()
    A, _ = laplacian(2)
    try:
        assert "1.0 or newer" in str(cudss.supports(A.structure, np.float64, "cuda:0", "gen"))
    finally:
        fake.fake_version(1)


def test_who_declines(monkeypatch: pytest.MonkeyPatch) -> None:
    A, _ = laplacian(2)
    monkeypatch.setattr(library, "path", lambda: "/nowhere/libcudss.so.1")
    fake_cudss.forget()
    reasons = [
        cudss.supports(structure, dtype, device, "gen")
        for structure, dtype, device in (
            (A.structure, np.float64, "cuda:0"),
            (A.structure, np.float64, "cpu"),
            (ldiv.toeplitz(np.ones(3)).structure, np.float64, "cuda:0"),
        )
    ]
    fake_cudss.forget()
    for reason, words in zip(reasons, (r"ldiv[cuda13]", "on cpu", "by their entries"), strict=True):
        assert words in str(reason)


def test_every_symbol_is_in_the_real_library() -> None:
    real = real_library()
    assert all(hasattr(real, name) for name in library.PROTOTYPES)


def real_library() -> Any:
    try:
        return CDLL(library.path())
    except OSError:
        pytest.skip("cuDSS is not installed: pip install ldiv[cuda13], or ldiv[cuda12]")


def test_numbers_are_those_of_the_real_library() -> None:
    """Settings by their defaults, and a sparse matrix as it is read there; neither needs a device."""
    real, config, matrix = real_library(), c_void_p(), c_void_p()
    for name, types in library.PROTOTYPES.items():
        getattr(real, name).argtypes = types
    assert real.cudssConfigCreate(byref(config)) == 0
    defaults = ((library.MATCHING, 6), (library.SOLVE_MODE, 0), (library.PIVOTING, 0))
    for which, default in (*defaults, (library.BATCH, 1)):
        found = c_int(-1)
        assert real.cudssConfigGet(config, which, byref(found), c_size_t(4), None) == 0
        assert found.value == default
    for which, good, bad in ((library.SOLVE_MODE, 2, 3), (library.PIVOTING, library.NEVER, 7)):
        told = [real.cudssConfigSet(config, which, byref(c_int(x)), 4) for x in (good, bad)]
        assert told[0] == 0 != told[1]
    starts, columns = np.array([0, 1, 2], np.int32), np.array([0, 1], np.int32)
    values = np.array([1.0, 2.0])
    arrays = starts.ctypes.data, None, columns.ctypes.data, values.ctypes.data
    kinds = library.TYPES["i"], library.TYPES["i"], library.TYPES["d"], 3, library.UPPER, 0
    assert real.cudssMatrixCreateCsr(byref(matrix), 2, 2, 2, *arrays, *kinds) == 0
    sizes = [c_int64() for _ in range(3)]
    found_at, found_kinds = [c_void_p() for _ in range(4)], [c_int() for _ in range(6)]
    outputs = map(byref, (*sizes, *found_at, *found_kinds))
    assert real.cudssMatrixGetCsr(matrix, *outputs) == 0
    assert [x.value for x in (*sizes, *found_at, *found_kinds)] == [2, 2, 2, *arrays, *kinds]
    assert real.cudssMatrixDestroy(matrix) == real.cudssConfigDestroy(config) == 0


@needs_compiler
def test_on_the_pretend_accelerator() -> None:
    """`auto` takes it there, for every kind; numbers never leave the device, and waits are counted."""
    code = """
import fake_cudss, numpy as np, scipy.sparse as sp, torch, ldiv
from ldiv.frontends.torch.devices.pretend_device import install, waits
fake, device = fake_cudss.install(), install()
rng = np.random.default_rng(0)
a = sp.random_array((30, 30), density=0.1, rng=rng).toarray() + 5 * np.eye(30)
b = rng.standard_normal((30, 2))
for kind, whole in (("gen", a), ("sym", a + a.T), ("pos", a + a.T)):
    A = ldiv.asarray(sp.coo_array(whole))
    v = torch.tensor(A.data).to(device).requires_grad_()
    f = torch.tensor(b).to(device)
    with waits() as counted:
        x = ldiv.solve(A.with_data(v), f, assume_a=kind)
        (g,) = torch.autograd.grad(x.sum(), v)
    y = np.linalg.solve(whole, b)
    lam = np.linalg.solve(whole.T, np.ones((30, 2)))
    h = -(lam @ y.T)
    if kind != "gen":
        h = (h + h.T) / 2
    at = A.row, A.col
    off = max(np.abs(x.detach().cpu().numpy() - y).max(), np.abs(g.cpu().numpy() - h[at]).max())
    size = ldiv.logdet(A.with_data(v), assume_a=kind)
    off = max(off, abs(float(size.detach()) - np.linalg.slogdet(whole)[1]))
    (g,) = torch.autograd.grad(size, v)
    off = max(off, np.abs(g.cpu().numpy() - np.linalg.inv(whole).T[at]).max())
    with ldiv.errstate(singular="nan"):
        z = ldiv.solve(A.with_data(torch.stack([v, 0 * v])), f, assume_a=kind)
    nan = z.isnan().cpu().all(-1).all(-1).tolist()
    engine = ldiv.explain(A.with_data(v), assume_a=kind).engine
    print(engine, off < 1e-12, counted.largest <= 8, nan == [False, True], flush=True)
print(fake.fake_misuse())
import os; os._exit(0)
"""
    assert run(code) == [*["cudss True True True"] * 3, "b''"]
