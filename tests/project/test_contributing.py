"""The four recipes for contributors are taken at their word: each listing is put where it
says, found, and used.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LISTINGS = dict(
    re.findall(
        r"`(src/ldiv/\S+\.py)`:\n\n```python\n(.*?\n)```",
        (ROOT / "docs" / "develop" / "recipes.md").read_text(),
        re.DOTALL,
    )
)

STRUCTURE = """
import numpy as np, torch, ldiv
from ldiv.structures.periodic import Periodic, cases

rng = np.random.default_rng(0)
for draw in (lambda *s: rng.standard_normal(s), lambda *s: rng.standard_normal(s) + 1j * rng.standard_normal(s)):
    for S, p in cases(draw):
        A, x, b, u, v, dp = S.todense(p), draw(5, 2), draw(5, 2), draw(5, 2), draw(5, 2), draw(3, 5)
        for op, B in {"N": A, "T": A.mT, "H": A.mT.conj(), "C": A.conj()}.items():
            assert np.allclose(S.view(op).matmul(p, x), B @ x)
            assert np.allclose(ldiv.solve(ldiv.Matrix(S.view(op), p), b), np.linalg.solve(B, b))
        assert np.isclose(np.vdot(S.project(u, v), dp).real, np.vdot(u @ v.conj().mT, S.todense(dp)).real)
p, b = torch.tensor(p[0], requires_grad=True), torch.tensor(b, requires_grad=True)
f = lambda p, b: ldiv.solve(ldiv.Matrix(S, p), b)
assert torch.autograd.gradcheck(f, (p, b), check_forward_ad=True) and torch.autograd.gradgradcheck(f, (p, b))
"""

RULE = """
import torch, ldiv
from ldiv.rules.quadratic import quadratic
from ldiv.structures import Dense

torch.manual_seed(0)
for dtype in (torch.float64, torch.complex128):
    p, x = (torch.randn(*s, dtype=dtype, requires_grad=True) for s in ((2, 4, 4), (4, 3)))
    f = lambda p, x: quadratic(Dense(4, 4), p, x)
    assert torch.allclose(f(p, x), torch.einsum("ik,bij,jk->b", x.conj(), p, x).real)
    assert torch.autograd.gradcheck(f, (p, x), check_forward_ad=True) and torch.autograd.gradgradcheck(f, (p, x))
"""

SOLVER = """
import numpy as np, ldiv
from ldiv.engines.registry import engines

assert "qr" in engines()
rng = np.random.default_rng(0)
for A in (rng.standard_normal((2, 4, 4)), rng.standard_normal((4, 4)) + 1j * rng.standard_normal((4, 4))):
    b = rng.standard_normal((4, 2))
    for trans in "NTH":
        assert np.allclose(ldiv.solve(A, b, trans=trans, method="qr"), ldiv.solve(A, b, trans=trans))
    assert np.allclose(ldiv.factorized(A, method="qr").logabsdet(), np.linalg.slogdet(A)[1])
try:
    ldiv.solve(np.ones((3, 3)), np.ones(3), method="qr")
except ldiv.SingularMatrixError:
    pass
else:
    raise AssertionError("a singular matrix was solved")
"""

FRONT_END = """
import sys, types
import numpy as np, scipy, scipy.linalg, ldiv, ldiv.core.frameworks.dispatch

assert "cupy" in ldiv.core.frameworks.dispatch.frontend_names() and "ldiv.frontends.cupy" not in sys.modules

class ndarray(np.ndarray):  # a stand-in for CuPy on machines without a GPU: an array type that NumPy's front end would not return
    def get(self):
        return np.asarray(self)

asarray = lambda x: np.asarray(x).view(ndarray)
cupy = types.SimpleNamespace(ndarray=ndarray, asarray=asarray, zeros=lambda s, t: asarray(np.zeros(s, t)))
cupy.add, cupy.linalg, cupy.isfinite, cupy.arange = np.add, np.linalg, np.isfinite, np.arange
sys.modules.update({"cupy": cupy, "cupyx": types.SimpleNamespace(scipy=scipy), "cupyx.scipy": scipy})
v, at, b = np.array([4.0, 5.0, 6.0, 1.0, 1.0]), ([0, 1, 2, 0, 2], [0, 1, 2, 2, 1]), np.arange(3.0)
A = ldiv.coo_array((v, at))
B = ldiv.coo_array((asarray(v), at))
for x, y in ((ldiv.solve(B, asarray(b)), ldiv.solve(A, b)), (B @ asarray(b), A @ b), (B.toarray(), A.toarray())):
    assert type(x) is ndarray and np.allclose(x, y)
for promise in ("gen", "pos", "lower triangular"):
    M = A.toarray() @ A.toarray().T
    assert np.allclose(ldiv.solve(asarray(M), asarray(b), assume_a=promise), ldiv.solve(M, b, assume_a=promise))
frontend = ldiv.core.frameworks.dispatch.frontend_of(asarray(b))
assert frontend.__name__ == "ldiv.frontends.cupy"
for M in (np.eye(3)[[1, 0, 2]], np.eye(3)[[1, 2, 0]]):
    assert frontend.dense.sign_of_rows(frontend.dense.lu_factor(asarray(M))[1]) == np.linalg.det(M)
"""

USES = {
    "src/ldiv/structures/periodic.py": STRUCTURE,
    "src/ldiv/rules/quadratic.py": RULE,
    "src/ldiv/engines/direct/qr.py": SOLVER,
    "src/ldiv/frontends/cupy.py": FRONT_END,
}


def test_every_listing_is_used() -> None:
    assert LISTINGS.keys() == USES.keys()


@pytest.mark.exhaustive  # four copies of ldiv, a process each
def test_recipes(tmp_path: Path) -> None:
    """All in one process, which loads the frameworks once; each use with names of its own."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for path, listing in LISTINGS.items():
        assert not (tmp_path / path).exists()
        (tmp_path / path).write_text(listing)
    program = "import sys; sys.path.insert(0, 'src')\n" + "".join(
        f"print({path!r}, flush=True)\nexec({use!r}, {{}})\n" for path, use in USES.items()
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
