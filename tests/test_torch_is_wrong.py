"""Second derivatives under jacfwd over jacfwd and jacrev over jacfwd: torch 2.13's of solve, det and slogdet are wrong, ours are not."""

import mpmath
import numpy as np
import pytest

import ldiv
from ldiv.testing.distance import assert_close

torch = pytest.importorskip("torch")
mpmath.mp.dps = 60
N, H = 3, mpmath.mpf(10) ** -15
RNG = np.random.default_rng(4)
A, D, E = (RNG.standard_normal((N, N)) + shift * np.eye(N) for shift in (3, 0, 0))
B = RNG.standard_normal((N, 1))

MODES = {
    "forward over forward": lambda f: torch.func.jacfwd(torch.func.jacfwd(f)),
    "reverse over forward": lambda f: torch.func.jacrev(torch.func.jacfwd(f)),
    "forward over reverse": lambda f: torch.func.jacfwd(torch.func.jacrev(f)),
    "reverse over reverse": lambda f: torch.func.jacrev(torch.func.jacrev(f)),
}
OURS = {
    "solve": lambda a: ldiv.solve(a, torch.tensor(B)).sum(),
    "det": ldiv.det,
    "slogdet": lambda a: ldiv.slogdet(a)[1],
}
THEIRS = {
    "solve": lambda a: torch.linalg.solve(a, torch.tensor(B)).sum(),
    "det": torch.linalg.det,
    "slogdet": lambda a: torch.linalg.slogdet(a)[1],
}
EXACT = {
    "solve": lambda a: mpmath.fsum(mpmath.inverse(a) * mpmath.matrix(B.tolist())),
    "det": mpmath.det,
    "slogdet": lambda a: mpmath.log(abs(mpmath.det(a))),
}


def exact(name):
    """d^2 f[D, E] by central differences in 60 digits."""
    a, d, e = (mpmath.matrix(x.tolist()) for x in (A, D, E))
    f = EXACT[name]
    return float(sum(s * t * f(a + s * H * d + t * H * e) for s in (1, -1) for t in (1, -1)) / (4 * H * H))


def second(f, mode):
    return float(torch.einsum("ijkl,ij,kl", MODES[mode](f)(torch.tensor(A)), torch.tensor(D), torch.tensor(E)))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", OURS)
def test_ours_are_right(name, mode):
    assert_close(f"{name}, {mode}", second(OURS[name], mode), exact(name), 1e-12)


@pytest.mark.skipif(torch.__version__.split(".")[:2] != ["2", "13"], reason="said of torch 2.13")
@pytest.mark.parametrize("mode", ["forward over forward", "reverse over forward"])
@pytest.mark.parametrize("name", THEIRS)
def test_those_of_torch_are_wrong(name, mode):
    try:
        theirs = second(THEIRS[name], mode)
    except RuntimeError:  # refused is not right, either
        return
    assert abs(theirs - exact(name)) > 1e-3 * abs(exact(name))


@pytest.mark.parametrize("mode", ["forward over reverse", "reverse over reverse"])
@pytest.mark.parametrize("name", THEIRS)
def test_the_others_of_torch_agree_with_ours(name, mode):
    assert_close(f"{name}, {mode}", second(THEIRS[name], mode), exact(name), 1e-12)
