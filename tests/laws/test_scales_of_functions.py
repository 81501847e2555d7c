"""f(2^k A) = 2^(dk) f(A), to the last bit, of the functions that users call: values, gradients and
derivatives of these, and no word of LAPACK's on the terminal.
"""

from __future__ import annotations

import numpy as np
import pytest

import ldiv
from ldiv.engines.libraries import native

torch = pytest.importorskip("torch")

POWERS = (1000, -540, 540, -1000)
N = 6
RNG = np.random.default_rng(0)


def tensor(*shape):
    return torch.from_numpy(RNG.standard_normal(shape)).clone()


EYE = torch.eye(N, dtype=torch.float64)
G, TALL, B, U = tensor(N, N), tensor(9, 4), tensor(N), tensor(N, 2)
SYM = (G + G.T) / 2 + torch.diag(3 * torch.arange(float(N), dtype=torch.float64))
POS, LOWER = G @ G.T + N * EYE, torch.tril(G) + N * EYE
BAND = 5 * EYE + torch.diag(tensor(N - 1) / 3, 1)
BAND = BAND + torch.diag(tensor(N - 1) / 3, -1)
EVEN = (BAND + BAND.T) / 2 + torch.diag(torch.arange(float(N), dtype=torch.float64))
START = tensor(N, 1)


ROWS, COLS = EVEN.numpy().nonzero()


def sparse(a):
    return ldiv.coo_array((a[ROWS, COLS], (ROWS, COLS)), shape=(N, N))


FIXED = sparse(BAND)


def pairs(found):
    lam, v = found
    return lam, v**2


def solved(assume_a, method="auto"):
    return lambda a: [ldiv.solve(a, B, assume_a=assume_a, method=method)]


def solved_sparse(assume_a, method):
    return lambda a: [ldiv.solve(sparse(a), B, assume_a=assume_a, method=method)]


# name: (A, f, the degrees of the results; None: a log-determinant)
FUNCTIONS = {
    "pinv": (TALL, lambda a: [ldiv.pinv(a)], [-1]),
    "lstsq, tall": (TALL, lambda a: [ldiv.lstsq(a, tensor_of(9))[0]], [-1]),
    "lstsq, wide": (TALL.T.clone(), lambda a: [ldiv.lstsq(a, tensor_of(4))[0]], [-1]),
    "eigh": (SYM, lambda a: pairs(ldiv.eigh(a)), [1, 0]),
    "eigsh": (SYM, lambda a: pairs(ldiv.eigsh(a, 2)), [1, 0]),
    "eigsh, sparse": (EVEN, lambda a: pairs(ldiv.eigsh(sparse(a), 2)), [1, 0]),
    "schur": (G, lambda a: [abs(x) for x in ldiv.schur(a, "complex")], [1, 0]),
    "eigs": (G, lambda a: [ldiv.eigs(a, 1, which="LR")[0].real], [1]),
    "eig": (G, lambda a: [ldiv.eigvals(a).real], [1]),
    "svd": (TALL, lambda a: pairs(ldiv.svd(a, full_matrices=False)[1::-1]), [1, 0]),
    "svds": (TALL, lambda a: pairs(ldiv.svds(a, 2)[1::-1]), [1, 0]),
    "eigh_tridiagonal": (
        EVEN,
        lambda a: pairs(ldiv.eigh_tridiagonal(a.diagonal(), a.diagonal(1))),
        [1, 0],
    ),
    "inv": (G, lambda a: [ldiv.inv(a)], [-1]),
    "cholesky": (POS, lambda a: [ldiv.cholesky(a)], [0.5]),
    "lu": (G, lambda a: ldiv.lu(a)[1:], [0, 1]),
    "ldl": (SYM, lambda a: ldiv.ldl(a)[:2], [0, 1]),
    "qr": (G, lambda a: ldiv.qr(a), [0, 1]),
    "polar": (G, lambda a: ldiv.polar(a), [0, 1]),
    "logdet": (POS, lambda a: [ldiv.logdet(a)], [None]),
    "logdet, sparse": (EVEN, lambda a: [ldiv.logdet(sparse(a))], [None]),
    "slogdet": (G, lambda a: [ldiv.slogdet(a)[1]], [None]),
    "selected_inverse": (EVEN, lambda a: [ldiv.selected_inverse(sparse(a)).data], [-1]),
    "Woodbury": (
        EVEN,
        lambda a: [ldiv.solve(sparse(a) + ldiv.LowRank(a[:, :2], U), B)],
        [-1],
    ),
    "kron": (POS, lambda a: [ldiv.solve(ldiv.kron(a, POS), torch.kron(B, B))], [-1]),
    "norm": (G, lambda a: [ldiv.norm(a), ldiv.norm(a, 2)], [1, 1]),
    "solve_sylvester": (G + 5 * EYE, lambda a: [ldiv.solve_sylvester(a, a.T, POS)], [-1]),
    "expm_multiply": (G, lambda a: [ldiv.expm_multiply(FIXED, a)], [1]),
    "gaussian_logpdf": (
        LOWER,
        lambda a: [ldiv.gaussian_logpdf(a[:, 0], a)],
        [None],
    ),
    "gen": (G, solved("gen"), [-1]),
    "sym": (SYM, solved("sym"), [-1]),
    "pos": (POS, solved("pos"), [-1]),
    "lower triangular": (LOWER, solved("lower triangular"), [-1]),
    "superlu": (BAND, solved_sparse("gen", "superlu"), [-1]),
    **({} if native.native is None else {"sparse lu": (BAND, solved_sparse("gen", "lu"), [-1])}),
    "banded": (BAND, lambda a: [ldiv.solve(sparse(a), B)], [-1]),
}  # fmt: skip


def tensor_of(n):
    return torch.linspace(-1, 2, n, dtype=torch.float64)


def scaled(x, power):
    return torch.from_numpy(np.asarray(np.ldexp(x.detach().numpy(), int(power))))


def results(f, a, weights, along):
    """Values; a gradient; its derivative along a direction."""

    def loss(a):
        return sum((w * y).sum() for w, y in zip(weights, f(a), strict=True))

    gradient = torch.func.grad(loss)
    yield from f(a)
    yield gradient(a)
    yield torch.func.grad(lambda a: (gradient(a) * along).sum())(a)


def fits(x):
    size = abs(x[x != 0])
    return bool((size > np.finfo(float).tiny).all() and (size < np.inf).all())


@pytest.mark.parametrize(
    ("name", "power"),
    [
        pytest.param(name, power, marks=() if (i + j) % 4 == 0 else pytest.mark.exhaustive)
        for i, name in enumerate(FUNCTIONS)
        for j, power in enumerate(POWERS)
    ],
)
def test_function(name, power, capfd):
    a, f, degrees = FUNCTIONS[name]
    gives = [0 if d is None else d * power for d in degrees]
    rng = np.random.default_rng(1)
    weights = [torch.tensor(rng.standard_normal(tuple(y.shape))) for y in f(a)]
    along = torch.from_numpy(rng.standard_normal(tuple(a.shape)))
    here = [*results(f, a, weights, along)]
    bars = [scaled(w, -p) for w, p in zip(weights, gives, strict=True)]
    there = [*results(f, scaled(a, power), bars, scaled(along, power))]
    for x, y, p in zip(here, there, [*gives, -power, -power], strict=True):
        expected = scaled(x, p)
        if x.ndim == 0 and degrees == [None]:
            continue  # the sum of logarithms, which rounds; its derivatives do not
        if fits(expected):
            assert torch.equal(y, expected), abs(y - expected).max() / abs(expected).max()
    assert capfd.readouterr().err == "", "LAPACK speaks"


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("name", [name for name in FUNCTIONS if None in FUNCTIONS[name][2]])
def test_logarithms_add(name, power):
    a, f, _ = FUNCTIONS[name]
    sign = -1 if name == "gaussian_logpdf" else 1
    found, expected = f(scaled(a, power))[0], f(a)[0] + sign * N * power * np.log(2)
    torch.testing.assert_close(found, expected, rtol=1e-14, atol=0)
