"""Members of a batch that compiled code declines go the careful way alone; the others stay compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ldiv
from ldiv.core.rules import declined
from ldiv.engines.libraries import native
from ldiv.rules.det import Det
from ldiv.rules.inverse import Inverse
from ldiv.rules.slogdet import SLogDet
from ldiv.rules.solve import Solve

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(native.native is None, reason=native.why_not)

N, BATCH, HARD = 4, (10, 20), [(0, 3), (7, 7), (9, 19)]
FUNCTIONS: dict[str, tuple[Any, Any]] = {
    "solve": (Solve, lambda a, b: ldiv.solve(a, b)),
    "det": (Det, lambda a, b: ldiv.det(a)),
    "slogdet": (SLogDet, lambda a, b: ldiv.slogdet(a)[1]),
    "inv": (Inverse, lambda a, b: ldiv.inv(a)),
}


def _batch(dtype: str, bad: Any = HARD, batch: tuple[int, ...] = BATCH) -> tuple[Any, Any]:
    """Orthogonal matrices with a few of a large condition among them, and right-hand sides."""
    rng = np.random.default_rng(0)

    def drawn(*shape: int) -> Any:
        x = rng.standard_normal(shape)
        return x + 1j * rng.standard_normal(shape) if dtype[0] == "c" else x

    a, b = np.linalg.qr(drawn(*batch, N, N))[0], drawn(*batch, N, 2)
    for at in bad:
        u, v = (np.linalg.qr(drawn(N, N))[0] for _ in range(2))
        a[at] = u @ np.diag([1, 1, 1, np.finfo(dtype).eps * 1e3]) @ v
    return a.astype(dtype), b.astype(dtype)


@pytest.fixture
def careful(monkeypatch: Any) -> list[int]:
    """The number of members of each batch that a kernel in Python computes."""
    seen: list[int] = []
    for rule, _ in FUNCTIONS.values():

        def kernel(self: Any, p: Any, *rest: Any, of: Any = rule.kernel) -> Any:
            seen.append(int(np.prod(p.shape[:-2])))
            return of(self, p, *rest)

        monkeypatch.setattr(rule, "kernel", kernel)
    return seen


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_only_hard_members_go_the_careful_way(name: str, dtype: str, careful: list[int]) -> None:
    f, (a, b) = FUNCTIONS[name][1], _batch(dtype)
    of_numpy = f(a, b)
    assert careful == [len(HARD)] or name == "det"  # whose checks are others
    x = torch.tensor(a, requires_grad=True)
    found = f(x, torch.tensor(b))
    assert set(careful) <= {len(HARD)}
    # SciPy's det is in double precision, PyTorch's in that of A
    close = 4 * np.finfo(dtype).eps
    np.testing.assert_allclose(found.detach().numpy(), of_numpy, rtol=close, atol=close)
    for at in np.ndindex(*BATCH):  # each as it is alone
        alone = f(a[at], b[at])
        size = abs(alone).max() if at in HARD else 0  # a batch may round otherwise
        np.testing.assert_allclose(of_numpy[at], alone, rtol=0, atol=1e-6 * size)
    careful.clear()
    (gradient,) = torch.autograd.grad(abs(found).sum(), x)
    assert set(careful) <= {len(HARD)}
    for at in [(0, 0), *HARD]:
        y = torch.tensor(a[at], requires_grad=True)
        (alone,) = torch.autograd.grad(abs(f(y, torch.tensor(b[at]))).sum(), y)
        close = 1e-2 if at in HARD else 1e3 * np.finfo(dtype).eps
        assert abs(gradient[at] - alone).max() <= close * abs(alone).max()


def test_refused_members_are_named_or_are_nan(careful: list[int]) -> None:
    a, b = _batch("float64")
    a[3, 4] = 1.0
    with pytest.raises(ldiv.SingularMatrixError, match=r"member \(3, 4\)"):
        ldiv.solve(a, b)
    careful.clear()
    with ldiv.errstate(singular="nan"):
        x = ldiv.solve(a, b)
    assert max(careful) <= 1 + len(HARD)
    bad = np.isnan(x).any((-2, -1))
    assert np.argwhere(bad).tolist() == [[3, 4]]
    regular = _batch("float64", list(HARD))[0]
    np.testing.assert_allclose(x[~bad], ldiv.solve(regular, b)[~bad], rtol=1e-3)


def test_many_hard_members_go_the_careful_way_together(careful: list[int]) -> None:
    every = list(np.ndindex(*BATCH))
    a, b = _batch("float64", every[::2])
    x = ldiv.solve(a, b)
    assert careful == [len(every)]
    np.testing.assert_allclose(a @ x, b, atol=1e-2)
    few = _batch("float64", [(0,)], (declined.MANY - 1,))
    careful.clear()
    ldiv.solve(*few)
    assert careful == [declined.MANY - 1]


def test_a_shared_matrix_is_not_taken_apart(careful: list[int]) -> None:
    a, b = _batch("float64", [0], (1,))
    x = ldiv.solve(a[0], np.broadcast_to(b[0], (100, N, 2)))
    np.testing.assert_allclose(x, np.broadcast_to(ldiv.solve(a[0], b[0]), x.shape), rtol=1e-3)
