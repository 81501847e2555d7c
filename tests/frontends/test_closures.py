"""A tensor that a user's function closes over has no derivative: where one is wanted, it raises, in
every mode of PyTorch; constants are left alone.
"""

from functools import partial

import pytest

import ldiv

torch = pytest.importorskip("torch")

N = 5
P, W, B = (
    torch.ones(N, dtype=torch.float64),
    torch.arange(1.0, N + 1, dtype=torch.float64),
    torch.ones(N, dtype=torch.float64),
)
EYE = torch.eye(N, dtype=torch.float64)


def operator(p, w, assume_a="pos"):
    return ldiv.LinearOperator(
        lambda p, x: (p * w)[:, None] * x, p, shape=(N, N), assume_a=assume_a
    )


def adjoint_alone(p, w):
    return ldiv.LinearOperator(
        lambda p, x: p[:, None] * x, p, shape=(N, N), rmatvec=lambda p, x: (p * w)[:, None] * x
    ).H


def shifted(x, p, w):
    return x**2 - p * w


class Shifted(torch.nn.Module):
    def __init__(self, w):
        super().__init__()
        self.w = w

    def forward(self, x, p):
        return shifted(x, p, self.w)


ENTRIES = {
    "solve": lambda p, w: ldiv.solve(operator(p, w), B),
    "solve, transposed": lambda p, w: ldiv.solve(operator(p, w, "gen"), B, trans="T"),
    "solve, rmatvec": lambda p, w: ldiv.solve(adjoint_alone(p, w), B),
    "solve, a sum": lambda p, w: ldiv.solve(
        operator(p, w) + ldiv.eye_array(N, like=P), B, method="gmres"
    ),
    "solve, a batch": lambda p, w: ldiv.solve(operator(p, w), torch.stack([EYE, EYE])),
    "cg": lambda p, w: ldiv.cg(operator(p, w), B)[0],
    "gmres": lambda p, w: ldiv.gmres(operator(p, w, "gen"), B)[0],
    "eigsh": lambda p, w: ldiv.eigsh(operator(p, w), 2)[0],
    "lobpcg": lambda p, w: ldiv.lobpcg(operator(p, w), EYE[:, :1] + 1)[0],
    "eigenspace": lambda p, w: ldiv.eigenspace(operator(p, w), 2)[0],
    "root": lambda p, w: ldiv.root(lambda x, p: x**2 - p * w, B, p),
    "implicit": lambda p, w: ldiv.implicit(lambda x, p: x**2 - p * w, W.sqrt(), p),
    "least_squares": lambda p, w: ldiv.least_squares(lambda x, p: x + p - w, 0 * B, p),
    "root, of functools.partial": lambda p, w: ldiv.root(partial(shifted, w=w), B, p),
    "root, of a module": lambda p, w: ldiv.root(Shifted(w), B, p),
    "spectral_sum": lambda p, w: ldiv.spectral_sum(lambda lam: lam * w[0], torch.diag(p * W), 2),
}


@pytest.mark.parametrize("params_require_grad", [False, True])
@pytest.mark.parametrize("entry", ENTRIES)
def test_what_wants_a_gradient_and_would_get_none_is_refused(entry, params_require_grad):
    f, p, w = (
        ENTRIES[entry],
        P.clone().requires_grad_(params_require_grad),
        W.clone().requires_grad_(),
    )
    with pytest.raises(ValueError, match="`params`"):
        f(p, w)
    wanted = f(P, W)
    with torch.no_grad():
        assert torch.allclose(f(p, w), wanted)
    assert torch.allclose(f(p, w.detach()), wanted)
    assert torch.allclose(f(p, w.detach()).detach(), wanted)


def dual(f, w):
    with torch.autograd.forward_ad.dual_level():
        return f(torch.autograd.forward_ad.make_dual(w, torch.ones_like(w)))


def pulled(y, pull):
    return pull(torch.ones_like(y))


TRANSFORMS = {
    "grad": lambda f, w: torch.func.grad(lambda w: f(w).sum())(w),
    "jacrev": lambda f, w: torch.func.jacrev(f)(w),
    "jvp": lambda f, w: torch.func.jvp(f, (w,), (w,)),
    "vjp": lambda f, w: pulled(*torch.func.vjp(f, w)),
    "jacfwd": lambda f, w: torch.func.jacfwd(f)(w),
    "grad of grad": lambda f, w: torch.func.grad(
        lambda w: torch.func.grad(lambda w: f(w).sum())(w).sum()
    )(w),
    "hessian": lambda f, w: torch.func.hessian(lambda w: f(w).sum())(w),
    "vmap": lambda f, w: torch.vmap(f)(torch.stack([w, w])),
    "vmap of grad": lambda f, w: torch.vmap(torch.func.grad(lambda w: f(w).sum()))(w[None]),
    "forward_ad": dual,
    "ldiv.jvp": lambda f, w: ldiv.jvp(f, (w,), (w,)),
}


# which say what others say, too
MORE = ("vjp", "jacfwd", "jacrev")


def some(transforms):
    return [pytest.param(t, marks=pytest.mark.exhaustive) if t in MORE else t for t in transforms]


@pytest.mark.parametrize("transform", some(TRANSFORMS))
@pytest.mark.parametrize("entry", ENTRIES)
def test_under_transforms_it_is_refused_too(entry, transform):
    f, transformed = ENTRIES[entry], TRANSFORMS[transform]
    with pytest.raises(ValueError, match="`params`"):
        transformed(lambda w: f(P, w), W)
    transformed(lambda w: f(P, W) * w[0], W)  # and what it does not depend on is a constant


@pytest.mark.parametrize("transform", some(t for t in TRANSFORMS if "vmap" not in t))
@pytest.mark.parametrize("entry", ENTRIES)
def test_under_transforms_constants_are_left_alone(entry, transform):
    f, transformed = ENTRIES[entry], TRANSFORMS[transform]
    found = transformed(lambda w: f(P, w.detach()) * w[0], W)
    torch.testing.assert_close(found, transformed(lambda w: f(P, W) * w[0], W))


def test_detached_inside_of_the_function_it_is_a_constant():
    def f(w):
        A = ldiv.LinearOperator(
            lambda p, x: (p * w.detach())[:, None] * x, P, shape=(N, N), assume_a="pos"
        )
        return (ldiv.solve(A, B) * w).sum()

    assert torch.allclose(torch.func.grad(f)(W), 1 / W)


def test_passed_in_params_it_has_its_gradient():
    w = W.clone().requires_grad_()
    A = ldiv.LinearOperator(
        lambda p, x: (p[0] * p[1])[:, None] * x, (P, w), shape=(N, N), assume_a="pos"
    )
    assert torch.allclose(torch.autograd.grad(ldiv.solve(A, B).sum(), w)[0], -1 / W**2)


def test_a_matrix_in_params_has_its_gradient():
    w = W.clone().requires_grad_()
    sparse = ldiv.diags_array([w], offsets=[0])
    for A in (sparse, sparse + ldiv.Matrix(ldiv.structures.Diagonal(N), 0 * W), sparse.H):
        L = ldiv.LinearOperator(
            lambda p, x: p["s"] * (p["A"] @ x), {"A": A, "s": P[0]}, shape=(N, N), assume_a="pos"
        )
        assert torch.allclose(torch.autograd.grad(ldiv.solve(L, B).sum(), w)[0], -1 / W**2)
    x = ldiv.root(lambda x, A: A @ x - B, 0 * B, sparse)
    assert torch.allclose(torch.autograd.grad(x.sum(), w)[0], -1 / W**2)


def test_a_product_by_itself_and_a_jacobian_are_differentiable_in_it():
    w = W.clone().requires_grad_()
    assert torch.allclose(torch.autograd.grad((operator(P, w) @ B).sum(), w)[0], P)
    assert torch.allclose(
        torch.autograd.grad(ldiv.jacobian(lambda x: w * x**2, B).sum(), w)[0], 2 * B
    )


@pytest.mark.parametrize("second", [False, True])
def test_a_preconditioner_may_close_over_anything(second):
    p, w = (W + 1).requires_grad_(), W.clone().requires_grad_()
    x = ldiv.solve(torch.diag(p), B, assume_a="pos", method="cg", M=operator(P, 1 / w))
    (g,) = torch.autograd.grad(x.sum(), p, create_graph=second)
    assert torch.allclose(g, -1 / (W + 1) ** 2)
    if second:
        assert torch.allclose(torch.autograd.grad(g.sum(), p)[0], 2 / (W + 1) ** 3)
    scaled = lambda w: ldiv.solve(
        torch.diag(W), B, assume_a="pos", method="cg", M=operator(P, 1 / w)
    )
    torch.func.grad(lambda w: (scaled(w) * w).sum())(W)
    lam, _ = ldiv.lobpcg(torch.diag(p), EYE[:, :1] + 1, M=operator(P, 1 / w))
    assert torch.allclose(torch.autograd.grad(lam.sum(), p)[0], EYE[-1])


def test_a_graph_inside_of_the_function_is_its_own_affair():
    """A product with a Hessian, of a loss of parameters that require grad."""
    w = W.clone().requires_grad_()

    def product(p, x):
        def one(column):
            z = p.detach().requires_grad_()
            (g,) = torch.autograd.grad((z**2 * w).sum(), z, create_graph=True)
            return torch.autograd.grad(g, z, column)[0]

        return torch.stack([one(column) for column in x.T], dim=1)

    A = ldiv.LinearOperator(torch.enable_grad()(product), P, shape=(N, N), assume_a="pos")
    assert torch.allclose(ldiv.solve(A, B), 1 / (2 * W))
