"""Second derivatives of solve, det and slogdet by all four of torch's compositions, against
differences in 60 digits.

Under an inner jacfwd those of torch.linalg were wrong when this was written (2.13): where a change
touches ours, they are no reference.
"""

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
FUNCTIONS = {
    "solve": lambda a: ldiv.solve(a, torch.tensor(B)).sum(),
    "det": ldiv.det,
    "slogdet": lambda a: ldiv.slogdet(a)[1],
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
    return float(
        sum(s * t * f(a + s * H * d + t * H * e) for s in (1, -1) for t in (1, -1)) / (4 * H * H)
    )


def second(f, mode):
    return float(
        torch.einsum(
            "ijkl,ij,kl", MODES[mode](f)(torch.tensor(A)), torch.tensor(D), torch.tensor(E)
        )
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_exact(name, mode):
    assert_close(f"{name}, {mode}", second(FUNCTIONS[name], mode), exact(name), 1e-12)
