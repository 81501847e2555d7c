"""Sparse matrices in modules, files and data loaders of PyTorch."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import apart
import numpy as np
import pytest
import scipy.sparse as sp

import ldiv
from ldiv.core.frameworks.pattern import Pattern

torch = pytest.importorskip("torch")

S = sp.csr_array(np.array([[4.0, 1.0, 0.0], [0.0, 3.0, 2.0], [1.0, 0.0, 5.0]]))
b = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
x = np.linalg.solve(S.toarray(), b.numpy())


def test_ldiv_alone_loads_no_torch() -> None:
    code = "import ldiv, sys; assert 'torch' not in sys.modules; ldiv.nn; assert 'torch' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("trainable", [True, False])
def test_a_module(trainable: bool) -> None:
    layer = ldiv.nn.SparseMatrix(S, trainable=trainable)
    assert len(list(layer.parameters())) == trainable
    assert np.allclose(layer(b).detach(), S @ b.numpy())
    assert np.allclose(layer.solve(b).detach(), x)
    if trainable:
        layer.solve(b).sum().backward()
        u = np.linalg.solve(S.toarray().T, np.ones(3))
        assert np.allclose(layer.values.grad, -(np.outer(u, x))[S.nonzero()])
    single = layer.to(torch.float32)
    assert single.values.dtype == torch.float32 and single.row.dtype == torch.int64
    assert layer.solve(b.float()).dtype == torch.float32


def test_in_place_of_a_matrix_it_names_its_matrix() -> None:
    layer = ldiv.nn.SparseMatrix(S)
    b = torch.ones(S.shape[0]).double()
    with pytest.raises(TypeError, match=r"got a SparseMatrix\. Pass its matrix, x\.matrix"):
        ldiv.solve(layer, b)
    torch.testing.assert_close(ldiv.solve(layer.matrix, b), layer.solve(b))


def test_training_and_functional_call() -> None:
    layer = ldiv.nn.SparseMatrix(S)
    optimizer = torch.optim.LBFGS(layer.parameters(), max_iter=100, line_search_fn="strong_wolfe")
    target = torch.tensor([1.0, -1.0, 0.5], dtype=torch.float64)

    def loss():
        optimizer.zero_grad()
        size = ((layer.solve(b) - target) ** 2).sum()
        size.backward()
        return size

    optimizer.step(loss)
    assert loss() < 1e-8
    doubled = {"values": 2 * layer.values}
    y = torch.func.functional_call(layer, doubled, (b,))
    assert torch.allclose(y, 2 * layer(b))


def test_copies_and_states() -> None:
    layer = ldiv.nn.SparseMatrix(S)
    layer.solve(b)
    twin = pickle.loads(pickle.dumps(copy.deepcopy(layer)))
    with torch.no_grad():
        layer.values *= 2
    assert np.allclose(twin.solve(b).detach(), x) and np.allclose(layer.solve(b).detach(), x / 2)
    other = sp.csr_array(S.toarray()[:, [1, 0, 2]])  # as many entries elsewhere
    moved = ldiv.nn.SparseMatrix(other)
    moved.solve(b)
    moved.load_state_dict(twin.state_dict())
    assert np.allclose(moved.solve(b).detach(), x)


def test_the_pattern_is_that_of_the_present_buffers() -> None:
    layer = ldiv.nn.SparseMatrix(S)
    states = [
        ldiv.nn.SparseMatrix(sp.csr_array(S.toarray()[:, order])).state_dict()
        for order in ([0, 1, 2], [1, 0, 2], [2, 1, 0])
    ]
    for turn in range(300):
        for _ in range(1 + turn % 3):  # tensors come and go, and others take their places in memory
            state = copy.deepcopy(states[np.random.default_rng(turn).integers(3)])
            layer.load_state_dict(state, assign=True)
        dense = np.zeros((3, 3))
        dense[state["row"], state["col"]] = state["values"]
        assert np.array_equal(layer.matrix.toarray().detach(), dense)


class Both(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.A = ldiv.nn.SparseMatrix(S)

    def forward(self, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.A.solve(b), self.A(b)


@pytest.mark.parametrize("how", ["new", "copied", "loaded", "written to", "moved"])
def test_an_exported_program(how: str) -> None:
    module = Both()
    if how == "copied":
        module = copy.deepcopy(module)
    if how == "loaded":
        module.load_state_dict({k: v.clone() for k, v in module.state_dict().items()}, assign=True)
    if how == "written to":
        module.A.col.copy_(module.A.col.roll(1))
    if how == "moved":
        module.A._apply(torch.clone)
    if how in ("written to", "moved"):
        with pytest.raises(RuntimeError, match=r"Read module\.matrix once"):
            torch.export.export(module, (b,))
        assert module.A.matrix.shape == (3, 3)
    program = torch.export.export(module, (b,)).module()  # the pattern is a constant in it
    for found, expected in zip(program(2 * b), module(2 * b), strict=True):
        assert torch.allclose(found, expected)
    program(b)[0].sum().backward()
    module(b)[0].sum().backward()
    gradients = [p.grad for m in (program, module) for p in m.parameters()]
    assert len(gradients) == 2
    assert torch.allclose(*gradients)


def test_a_strict_export_is_refused() -> None:
    with pytest.raises(Exception, match="expected strict=False, got strict=True"):
        torch.export.export(Both(), (b,), strict=True)


def test_in_inference_mode() -> None:
    with torch.inference_mode():
        layer = ldiv.nn.SparseMatrix(S)
        assert np.allclose(layer.solve(b), x)
        layer.col.copy_(layer.col.roll(1))
        assert np.array_equal(layer.matrix.col, np.roll(S.tocoo().col, 1))


def test_states_of_other_matrices_are_refused() -> None:
    layer = ldiv.nn.SparseMatrix(S)
    state = ldiv.nn.SparseMatrix(sp.csr_array(np.ones((2, 3)))).state_dict()
    with pytest.raises(RuntimeError, match=r"size: expected \(3, 3\), got \(2, 3\)"):
        layer.load_state_dict(state)
    state = ldiv.nn.SparseMatrix(S).state_dict()
    state["row"] = state["row"] + 3
    with pytest.raises(RuntimeError, match="row: expected places from 0 to 2"):
        layer.load_state_dict(state)
    assert np.allclose(layer.solve(b).detach(), x)
    with pytest.raises(TypeError, match="A"):
        ldiv.nn.SparseMatrix("a")


IN_PARALLEL = """
import os, sys, numpy as np, torch, scipy.sparse as sp, ldiv.nn
S, b = sp.csr_array(np.array({dense})), torch.tensor({b}, dtype=torch.float64)
torch.distributed.init_process_group("gloo", init_method="file://{store}", rank=0, world_size=1)
layer = torch.nn.parallel.DistributedDataParallel(ldiv.nn.SparseMatrix(S))
layer(b).sum().backward()
assert np.allclose(layer.module.values.grad, b[S.indices])
assert np.allclose(layer.module.solve(b).detach(), {x})
print("right", flush=True)
os._exit(0)
"""


def test_distributed_data_parallel(tmp_path: Path) -> None:
    """The process ends without destroying its group: that may wait for ever for a thread of gloo,
    which waits for Python.
    """
    script = IN_PARALLEL.format(
        dense=S.toarray().tolist(), b=b.tolist(), x=np.asarray(x).tolist(), store=tmp_path / "store"
    )
    found = apart.run(script, first="import torch, ldiv.nn")
    assert found.stdout == "right\n", found.stderr


def test_files_in_a_fresh_process(tmp_path: Path) -> None:
    A = ldiv.asarray(S).with_data(torch.tensor(S.data, requires_grad=True))
    torch.save(
        {"A": A, "transposed": A.T, "layer": ldiv.nn.SparseMatrix(S).state_dict()}, tmp_path / "f"
    )
    code = f"""
import ldiv.nn, torch, numpy as np
found = torch.load({str(tmp_path / "f")!r})
assert type(found["A"]) is ldiv.SparseArray and found["A"].format == "csr"
assert np.array_equal(found["A"].toarray().detach(), {S.toarray().tolist()})
assert np.array_equal(found["transposed"].toarray().detach(), np.array({S.toarray().tolist()}).T)
assert found["A"].data.requires_grad
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_places_that_a_file_has_changed_are_refused(tmp_path: Path) -> None:
    pattern = Pattern(np.array([0, 1, 9]), np.arange(3), (3, 3))
    wrong = ldiv.SparseArray(ldiv.structures.Sparse(pattern), torch.ones(3))
    torch.save(wrong, tmp_path / "f")
    with pytest.raises(Exception, match=r"rows: expected indices in 0 \.\. 2"):
        torch.load(tmp_path / "f")
    layer = ldiv.nn.SparseMatrix(S)
    layer.col[1] = 1 << 20
    with pytest.raises(ValueError, match=r"columns: expected indices in 0 \.\. 2"):
        layer(torch.ones(3, dtype=torch.float64))


def test_a_data_loader() -> None:
    ldiv.nn.SparseMatrix(S)
    A = ldiv.asarray(S).with_data(torch.tensor(S.data))
    data = [(A.with_data(A.data * k), b * k) for k in range(1, 5)]
    matrices, sides = next(iter(torch.utils.data.DataLoader(data, batch_size=4)))
    assert matrices.shape == (4, 3, 3)
    assert np.allclose(ldiv.solve(matrices, sides[..., None])[..., 0], x)
    with pytest.raises(ValueError, match="one pattern"):
        torch.utils.data.default_collate([A, A.T])


def test_whole_numbers_beside_it() -> None:
    A = torch.tensor(S.toarray())
    for side in (torch.tensor([1, 2, 3]), [1, 2, 3], torch.tensor([1, 2, 3], dtype=torch.int32)):
        assert np.allclose(ldiv.solve(A, side), x)
    mask = torch.tensor([True, False, True])
    assert np.allclose(ldiv.solve(A, mask), np.linalg.solve(A.numpy(), mask.numpy()))
    large = torch.tensor([2**53 - 1, 0, 0])
    assert ldiv.solve(torch.eye(3, dtype=torch.float64), large)[0] == 2**53 - 1
    assert np.allclose(ldiv.solve(A.long(), torch.tensor([1, 2, 3])), x)


def test_a_tape_is_not_reversed_twice_in_silence() -> None:
    a, out = (ldiv.Duplicated(np.ones((2, 2)), np.zeros((2, 2))) for _ in range(2))
    with ldiv.Tape() as tape:
        tape.matmul(a, a, out=out)
    out.shadow[:] = 1
    tape.reverse()
    first = a.shadow.copy()
    out.shadow[:] = 1
    with pytest.raises(ValueError, match="reversed"):
        tape.reverse()
    assert np.array_equal(a.shadow, first)
    tape.matmul(a, a, out=out)
    tape.reverse()
    assert np.array_equal(a.shadow, 2 * first)
