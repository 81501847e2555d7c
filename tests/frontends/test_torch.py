"""PyTorch users' ways to a derivative, and what must not happen on them."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv
from ldiv import testing
from ldiv.core.frameworks.trees import leaves, rebuild
from ldiv.core.rules.rule import bind
from ldiv.rules.solve import Solve

torch = pytest.importorskip("torch")
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap  # noqa: E402

ROWS = np.array([0, 1, 2, 3, 4, 0, 1, 2, 3, 0, 0])
COLS = np.array([0, 1, 2, 3, 4, 1, 2, 3, 4, 3, 0])


def problem(dtype=torch.float64):
    g = torch.Generator().manual_seed(1)
    v = torch.randn(11, dtype=dtype, generator=g) + 4 * torch.asarray(ROWS == COLS)
    b = torch.randn(5, 2, dtype=dtype, generator=g)
    return v, b


def sparse(v):
    return ldiv.coo_array((v, (ROWS, COLS)), shape=(5, 5))


def dense(v):
    return torch.zeros(5, 5, dtype=v.dtype).index_put(
        (torch.asarray(ROWS), torch.asarray(COLS)), v, accumulate=True
    )


def ours(v, b):
    return ldiv.solve(sparse(v), b).square().sum()


def theirs(v, b):
    """The inverse is differentiated correctly by torch where its solve is not."""
    return (torch.linalg.inv(dense(v)) @ b).square().sum()


@pytest.mark.parametrize("outer", [jacfwd, jacrev])
@pytest.mark.parametrize("inner", [jacfwd, jacrev])
@pytest.mark.parametrize("argument", [0, 1])
def test_hessian_in_all_four_compositions(outer, inner, argument):
    v, b = problem()
    torch.testing.assert_close(
        outer(inner(ours, argument), argument)(v, b), hessian(theirs, argument)(v, b)
    )


def test_forward_over_forward_of_a_dense_solve():
    """The result of torch.linalg.solve was wrong when this was written, by more than a thousandth
    (2.13); through its inverse it is right.
    """
    torch.manual_seed(0)
    A, b = (
        torch.randn(3, 3, dtype=torch.float64) + 3 * torch.eye(3),
        torch.randn(3, dtype=torch.float64),
    )
    right = hessian(lambda A: (torch.linalg.inv(A) @ b).square().sum())(A)
    got = jacfwd(jacfwd(lambda A: ldiv.solve(A, b).square().sum()))(A)
    torch.testing.assert_close(got, right)


def test_third_derivative():
    v, b = problem()
    torch.testing.assert_close(
        jacfwd(jacrev(jacfwd(ours)))(v, b), jacrev(jacrev(jacrev(theirs)))(v, b)
    )


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_gradcheck(dtype):
    v, b = problem(dtype)
    args = v.requires_grad_(), b.requires_grad_()
    f = lambda v, b: ldiv.solve(sparse(v), b)
    assert torch.autograd.gradcheck(f, args, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(f, args, check_fwd_over_rev=True)


@pytest.mark.parametrize("assume_a", ["sym", "pos"])
def test_gradcheck_entry_by_entry_of_a_symmetric_matrix(assume_a):
    """The promise reads the symmetric part, so perturbing one entry at a time agrees too."""
    A = torch.randn(4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    A = (A @ A.T + torch.eye(4)).requires_grad_()
    b = torch.ones(4, dtype=torch.float64)
    assert torch.autograd.gradcheck(
        lambda A: ldiv.solve(A, b, assume_a=assume_a), (A,), check_forward_ad=True
    )


def test_vmap_over_values_right_hand_sides_and_both():
    v, b = problem()
    many_v, many_b = v + 0.1 * torch.arange(3.0)[:, None], b * torch.arange(1.0, 4.0)[:, None, None]
    for dims, args in (
        ((0, None), (many_v, b)),
        ((None, 0), (v, many_b)),
        ((0, 0), (many_v, many_b)),
    ):
        torch.testing.assert_close(vmap(ours, dims)(*args), vmap(theirs, dims)(*args))
        torch.testing.assert_close(vmap(grad(ours), dims)(*args), vmap(grad(theirs), dims)(*args))
    nested = vmap(lambda v: vmap(lambda b: ours(v, b))(many_b))(many_v)
    torch.testing.assert_close(nested, vmap(lambda v: vmap(lambda b: theirs(v, b))(many_b))(many_v))
    torch.testing.assert_close(
        vmap(ours, (1, None))(many_v.T, b), vmap(theirs, (0, None))(many_v, b)
    )


def test_jvp_and_vjp():
    v, b = problem()
    f, g = (lambda v: ldiv.solve(sparse(v), b)), (lambda v: torch.linalg.inv(dense(v)) @ b)
    for a, e in zip(jvp(f, (v,), (v * 0.5,)), jvp(g, (v,), (v * 0.5,)), strict=True):
        torch.testing.assert_close(a, e)
    torch.testing.assert_close(vjp(f, v)[1](b)[0], vjp(g, v)[1](b)[0])


def test_forward_mode_outside_of_torch_func():
    v, b = problem()
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(v, torch.ones_like(v))
        tangent = torch.autograd.forward_ad.unpack_dual(ours(dual, b)).tangent
    torch.testing.assert_close(tangent, grad(theirs)(v, b).sum())


def test_forward_over_reverse_outside_of_torch_func():
    """A dual level around backward(create_graph): the Hessian-vector product of an optimiser."""
    v, b = problem()
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(v.requires_grad_(), torch.ones_like(v))
        (g,) = torch.autograd.grad(ours(dual, b), dual, create_graph=True)
        product = torch.autograd.forward_ad.unpack_dual(g).tangent
    torch.testing.assert_close(product, hessian(theirs)(v.detach(), b).sum(0))


def test_only_what_is_needed_is_computed():
    v, b = problem()
    ldiv.clear_cache()
    ours(v, b.requires_grad_()).backward()
    assert v.grad is None
    assert ldiv.cache_info()[1:4] == (1, 1, 2)


def test_a_module_with_parameters():
    class Spring(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.stiffness = torch.nn.Parameter(problem()[0])

        def forward(self, f):
            return ldiv.solve(sparse(self.stiffness), f)

    module, (v, b) = Spring(), problem()
    module(b).square().sum().backward()
    torch.testing.assert_close(module.stiffness.grad, grad(theirs)(v, b))
    torch.testing.assert_close(functional_call(module, {"stiffness": v}, b), module(b))


def test_saved_values_changed_in_place_are_noticed():
    v, b = problem()
    w = v.clone().requires_grad_()
    scaled = w * 1.0
    loss = ours(scaled, b)
    with torch.no_grad():
        scaled.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_compile_breaks_the_graph_cleanly(capfd):
    v, b = problem()

    def f(v, b):
        return ours(v * 2, b) + 1

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the compiler's own
        compiled = torch.compile(f, backend="aot_eager")
        torch.testing.assert_close(compiled(v, b), f(v, b))
        w = v.clone().requires_grad_()
        compiled(w, b).backward()
    torch.testing.assert_close(w.grad, grad(f)(v, b))
    assert "Error" not in capfd.readouterr().err


def test_matrix_products_leave_torch_sparse_alone():
    """torch.mm with a sparse operand allocates n x n in its backward; ours has nnz numbers."""
    v, _ = problem()
    x = torch.ones(5, dtype=torch.float64)
    torch.testing.assert_close(
        hessian(lambda v: (sparse(v) @ x).square().sum())(v),
        hessian(lambda v: (dense(v) @ x).square().sum())(v),
    )


@pytest.mark.gpu
@pytest.mark.parametrize(
    "assume_a", ["gen", "pos", "sym", "upper triangular", "lower triangular", "diagonal"]
)
def test_dense_on_cuda(assume_a):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device is visible to torch")
    A = torch.randn(20, 20, dtype=torch.float64, device="cuda")
    A = A @ A.T + 20 * torch.eye(20, dtype=torch.float64, device="cuda")
    b = torch.randn(20, 3, dtype=torch.float64, device="cuda")
    f = lambda A, b: ldiv.solve(A, b, assume_a=assume_a).square().sum()
    for argument in (0, 1):
        torch.testing.assert_close(
            grad(f, argument)(A, b).cpu(), grad(f, argument)(A.cpu(), b.cpu())
        )
        torch.testing.assert_close(
            jacfwd(grad(f, argument), argument)(A, b).cpu(),
            jacfwd(grad(f, argument), argument)(A.cpu(), b.cpu()),
        )


@pytest.mark.gpu
def test_sparse_on_cuda_says_what_works():
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device is visible to torch")
    v, b = problem()
    A = sparse(v.cuda())
    torch.testing.assert_close((A @ b.cuda()).cpu(), sparse(v) @ b)
    with pytest.raises(ldiv.EngineError, match="only positive definite ones are factored there"):
        ldiv.solve(A, b.cuda())


def test_constants_of_numpy_are_moved():
    v, b = problem()
    torch.testing.assert_close(ldiv.solve(sparse(v), b.numpy()), ldiv.solve(sparse(v), b))
    assert sp.issparse(sparse(v).to_scipy())


def test_a_pullback_outlives_its_level():
    """torch.func.vjp returns what is called after its level has ended; the rule then runs
    functions of the user's.
    """
    P = torch.tensor([1.0, 2.0, 1.5], dtype=torch.float64)

    def roots(p):
        return ldiv.root(lambda x, p: x * x * x - 5 * p**2, torch.ones(3, dtype=torch.float64), p)

    exact = (2 / 3) * 5 ** (1 / 3) * P ** (-1 / 3)
    torch.testing.assert_close(torch.func.vjp(roots, P)[1](torch.ones_like(P))[0], exact)
    torch.testing.assert_close(ldiv.jacobian(roots, P), torch.diag(exact))
    torch.testing.assert_close(ldiv.hvp(lambda p: roots(p).sum(), P, P), -exact / 3)


SMALL_RULES = [
    (r, args)
    for dtype in ("float64", "complex128")
    for r, args in testing.found_rules(dtype)
    if r.traits.on_host
]


def small_rules():
    """`make test` takes each rule once, and a solve once on each kind of structure."""
    seen = set()
    for i, (rule, args) in enumerate(SMALL_RULES):
        kind = type(rule), type(getattr(rule, "structure", None)) if isinstance(rule, Solve) else 0
        marks = pytest.mark.exhaustive if kind in seen else ()
        seen.add(kind)
        yield pytest.param(rule, args, id=f"{type(rule).__name__}-{i}", marks=marks)


@pytest.mark.parametrize(("rule", "args"), list(small_rules()))
def test_backward_with_and_without_a_graph(rule, args):
    """A few numbers are NumPy arrays in a backward pass that nobody differentiates; in others
    they are tensors.
    """
    flat = [
        torch.from_numpy(np.array(x)).requires_grad_(x.dtype.kind in "fc") for x in leaves(args)
    ]
    wanted = [x for x in flat if x.requires_grad]
    if not wanted:
        pytest.skip("integers have no derivative")
    outputs = [y for y in bind(rule, *rebuild(args, flat)) if y.requires_grad]
    bars = [
        torch.randn(y.shape, dtype=y.dtype, generator=torch.Generator().manual_seed(2))
        for y in outputs
    ]
    plain, graph = (
        torch.autograd.grad(
            outputs, wanted, bars, retain_graph=True, create_graph=again, allow_unused=True
        )
        for again in (False, True)
    )
    for ours, theirs in zip(plain, graph, strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            torch.testing.assert_close(ours, theirs.detach(), rtol=1e-12, atol=1e-12)


def test_results_of_a_few_numbers_have_memory_of_their_own():
    b, identity = torch.ones(3, dtype=torch.float64), torch.eye(3, dtype=torch.float64)
    of_ones = ldiv.Matrix(ldiv.structures.Diagonal(3), torch.ones(3, dtype=torch.float64))
    for y in (
        ldiv.solve(of_ones, b),
        ldiv.solve(identity, b),
        ldiv.cholesky(identity),
        ldiv.lu_factor(identity)[0],
    ):
        y += 1
    assert (b == 1).all()
    assert (of_ones.params == 1).all()
    assert (identity == torch.eye(3)).all()


def test_what_a_few_numbers_share_with_numpy_may_change_after_the_call():
    """The factor that backward uses is that of the values as they are then, whoever wrote to
    them.
    """
    shared = np.diag([2.0, 4.0])
    A = torch.from_numpy(shared).requires_grad_()
    x = ldiv.solve(A, torch.ones(2, dtype=torch.float64))
    shared[0, 0] = 4.0
    (g,) = torch.autograd.grad(x.sum(), A)
    torch.testing.assert_close(g[1], -torch.tensor([0.5, 0.25], dtype=torch.float64) * 0.25)


def test_pullback_of_a_transform_where_gradients_are_off():
    A, b = 2 * torch.eye(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    batch = torch.stack([b, 2 * b])
    with torch.no_grad():
        pull = vjp(ldiv.solve, A, b)[1]
        gradients = vmap(pull)(batch)
    torch.testing.assert_close(gradients[1], batch / 2)
    torch.testing.assert_close(gradients[0], -(batch / 2)[:, :, None] * (b / 2))


def test_zeros_without_memory_are_zeros():
    """Forward mode makes such tensors, and torch an array of them that is not filled."""
    zero = torch._efficientzerotensor((9, 3, 5), dtype=torch.float64)[..., :4]
    A = ldiv.coo_array((torch.ones(3).double(), (range(3), range(3))), shape=(3, 3))
    for _ in range(20):
        freed = [np.full((3, 9, 4), np.nan) for _ in range(20)]
        del freed
        assert not (A @ zero).any()
        assert not ldiv.solve(A, zero).any()
        assert not ldiv.solve(torch.eye(3).double(), zero).any()


def test_no_result_and_no_gradient_is_a_lazy_conjugate():
    """NumPy does not read those: `a.grad.numpy()` would raise."""
    rng = np.random.default_rng(0)
    a, b = (torch.tensor(rng.standard_normal(12) + 1j, requires_grad=True) for _ in range(2))
    at = np.divmod(np.arange(12), 4)

    def wide(v):
        return ldiv.coo_array((v, at), shape=(3, 4))

    calls = {
        "lstsq": lambda: ldiv.lstsq(wide(a), b[:3]).x,
        "adjoint": lambda: wide(a).H @ b[:3],
        "conj": lambda: wide(a).conj().data,
        "vecdot": lambda: ldiv.vecdot(a, b),
    }
    for name, call in calls.items():
        y = call()
        (g,) = torch.autograd.grad(y.sum().real, a)
        assert not (y.is_conj() or g.is_conj()), name
        g.numpy()
