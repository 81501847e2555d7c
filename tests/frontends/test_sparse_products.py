"""Products in compressed rows, on the cpu as on CUDA: those of the dense matrix, in every view."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import ldiv
from ldiv.engines.iterative.matrix_product import _by_rows
from ldiv.structures.symmetric import Symmetric

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("ldiv.frontends.torch.sparse_products")
    monkeypatch.setattr(module, "ON", {"cpu"})


VIEWS = {
    "N": lambda s: s,
    "T": lambda s: s.T,
    "H": lambda s: s.H,
    "conj": lambda s: s.C,
    "hermitian part": lambda s: Symmetric(s, "H"),
    "its conjugate": lambda s: Symmetric(s, "H").C,
    "symmetric part": lambda s: Symmetric(s, "T"),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex128], ids=["float32", "complex128"])
@pytest.mark.parametrize("view", VIEWS)
def test_product(view: str, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    at = tuple(rng.integers(0, 6, (2, 20)))  # some of them twice
    S = ldiv.coo_array((torch.tensor(rng.standard_normal(20)).to(dtype), at), shape=(6, 6))
    structure = VIEWS[view](S.structure)
    product = _by_rows(*structure.unview(), S.data)
    assert product is not None
    a = structure.todense(S.data)
    for shape in ((6, 1), (3, 6, 2)):
        for x in (torch.randn(shape), torch.randn(shape, dtype=torch.complex128)):
            wide = torch.promote_types(a.dtype, x.dtype)
            torch.testing.assert_close(product(x), a.to(wide) @ x.to(wide))


def test_none_of_a_batch() -> None:
    S = ldiv.coo_array((torch.ones(3, 2), ([0, 1], [0, 1])), shape=(2, 2))
    assert _by_rows(*S.structure.unview(), S.data) is None
