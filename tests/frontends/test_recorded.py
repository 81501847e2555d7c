"""Recorded programs of PyTorch compute with the numbers that they are given: values and gradients
are those of the function, for numbers that nobody saw when it was recorded.
"""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import ldiv

ROWS, COLUMNS = [0, 1, 2, 3, 0, 3], [0, 1, 2, 3, 3, 0]
FLOAT = {"dtype": torch.float64}
V, B = torch.tensor([4.0, 5.0, 6.0, 7.0, 1.0, 1.0], **FLOAT), torch.arange(1.0, 5.0, **FLOAT)
A = ldiv.coo_array((V, (ROWS, COLUMNS)), shape=(4, 4))
D = A.toarray()


def sparse(v: Any) -> Any:
    return ldiv.coo_array((v, (ROWS, COLUMNS)), shape=(4, 4))


DENSE: dict[str, Callable[..., Any]] = {
    "solve": lambda D, b: ldiv.solve(D, b),
    "solve, pos": lambda D, b: ldiv.solve(D @ D.T, b, assume_a="pos"),
    "cholesky, logdet": lambda D, b: ldiv.cholesky(D @ D.T).sum() + ldiv.logdet(D @ D.T) * b,
    "lu, eigh": lambda D, b: ldiv.lu_factor(D)[0] @ b + ldiv.eigh(D + D.T)[0],
}
SPARSE: dict[str, Callable[..., Any]] = {
    "solve": lambda v, b: ldiv.solve(sparse(v), b),
    "products": lambda v, b: (sparse(v) + sparse(v).T) @ b + ldiv.slogdet(A.with_data(v))[1],
    "cg": lambda v, b: ldiv.solve(A.with_data(v), b, assume_a="pos", method="cg"),
}
EVERY = [
    *(pytest.param(f, D, id=f"dense {name}") for name, f in DENSE.items()),
    *(pytest.param(f, V, id=f"sparse {name}") for name, f in SPARSE.items()),
]


@pytest.fixture(autouse=True)
def no_state() -> Iterator[None]:
    yield
    torch._dynamo.reset()


def gradients(f: Callable[..., Any], *xs: Any) -> Any:
    leaves = [x.detach().clone().requires_grad_() for x in xs]
    return torch.autograd.grad(f(*leaves).square().sum(), leaves)


def agree(program: Callable[..., Any], f: Callable[..., Any], p: Any) -> None:
    """Check that a record agrees with the function on other numbers."""
    other = 1.5 * p + (0.1 if p.ndim == 1 else 0.1 * torch.eye(4, **FLOAT)), B.flip(0)
    torch.testing.assert_close(program(*other), f(*other))
    torch.testing.assert_close(gradients(program, *other), gradients(f, *other))


class Module(torch.nn.Module):
    def __init__(self, f: Callable[..., Any]) -> None:
        super().__init__()
        self.f = f

    def forward(self, p: Any, b: Any) -> Any:
        return self.f(p, b)


@pytest.mark.parametrize(("f", "p"), EVERY)
def test_make_fx(f: Callable[..., Any], p: Any) -> None:
    """The function and its gradient are recorded, with and without numbers."""
    agree(make_fx(f)(p, B), f, p)
    other = 2 * p, B.flip(0)
    recorded = make_fx(
        lambda *x: gradients(f, *x), tracing_mode="fake", _allow_non_fake_inputs=True
    )
    torch.testing.assert_close(recorded(p, B)(*other), gradients(f, *other))


@pytest.mark.parametrize(("f", "p"), EVERY)
def test_export(f: Callable[..., Any], p: Any) -> None:
    agree(torch.export.export(Module(f), (p, B)).module(), f, p)


@pytest.mark.parametrize("f", [pytest.param(f, id=name) for name, f in DENSE.items()])
def test_compile_in_one_graph(f: Callable[..., Any]) -> None:
    agree(torch.compile(f, backend="aot_eager", fullgraph=True), f, D)


@pytest.mark.parametrize("f", [pytest.param(f, id=name) for name, f in SPARSE.items()])
def test_compile_with_a_matrix_in_one_graph(f: Callable[..., Any]) -> None:
    """A function of tensors that makes the matrix is a node of the graph."""
    node = torch.compiler.allow_in_graph(f)
    program = torch.compile(lambda v, b: node(v * 2, b) + 1, backend="aot_eager", fullgraph=True)
    agree(program, lambda v, b: f(v * 2, b) + 1, V)


def test_other_sizes_make_another_graph() -> None:
    program = torch.compile(DENSE["solve"], backend="aot_eager", fullgraph=True)
    for n in (4, 5, 6):
        M, b = torch.eye(n, **FLOAT) * n + 1, torch.arange(1.0, n + 1, **FLOAT)
        torch.testing.assert_close(gradients(program, M, b), gradients(DENSE["solve"], M, b))
    f = make_fx(lambda M: ldiv.solve(M, B), tracing_mode="symbolic", _allow_non_fake_inputs=True)
    torch.testing.assert_close(f(D)(D + 1), ldiv.solve(D + 1, B))


@pytest.mark.parametrize(
    "f", [lambda v, b: ldiv.solve(A, b), lambda v, b: ldiv.solve(sparse(v), b)]
)
def test_what_a_graph_cannot_have_is_named(f: Callable[..., Any]) -> None:
    with pytest.raises(Exception, match="allow_in_graph"):
        torch.compile(f, backend="aot_eager", fullgraph=True)(V, B)


def test_second_derivatives_and_batches_of_a_program() -> None:
    f = DENSE["solve"]
    program = torch.export.export(Module(f), (D, B)).module()
    loss, wanted = (lambda b, g=g: g(D + b.diag(), b).square().sum() for g in (program, f))
    torch.testing.assert_close(
        torch.autograd.functional.hessian(loss, B), torch.func.hessian(wanted)(B)
    )
    many = torch.stack([D, 2 * D])
    torch.testing.assert_close(
        torch.vmap(program, (0, None))(many, B), torch.vmap(f, (0, None))(many, B)
    )


def test_the_factor_of_the_program_serves_its_derivative() -> None:
    program = torch.export.export(Module(SPARSE["solve"]), (V, B)).module()
    v = (3 * V).requires_grad_()
    ldiv.clear_cache()
    program(v, B).sum().backward()
    assert ldiv.cache_info().factorizations == 1


# the check itself looks there, from PyTorch 2.15 on
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
def test_the_operator_is_as_torch_wants_it() -> None:
    graph = make_fx(DENSE["solve"])(D, B).graph
    key, _ = next(n for n in graph.nodes if "ldiv" in str(n.target)).args
    torch.library.opcheck(torch.ops.ldiv.rule, (key, [D.clone().requires_grad_(), B]))


def test_a_program_of_another_process_is_refused() -> None:
    make_fx(DENSE["solve"])(D, B)
    with pytest.raises(ValueError, match="rule: expected one of this process"):
        torch.ops.ldiv.rule("Solve-0", [D, B[:, None]])


def test_bad_numbers_raise_when_the_program_runs() -> None:
    program = torch.export.export(Module(DENSE["solve"]), (D, B)).module()
    with pytest.raises(ldiv.SingularMatrixError):
        program(torch.ones_like(D), B)
    with pytest.raises(ValueError, match="finite"):
        program(D * torch.nan, B)


@pytest.mark.filterwarnings("ignore:.torch.jit.trace. is deprecated")
def test_another_recorder_is_refused() -> None:
    with pytest.raises(TypeError, match="one that can read its numbers now"):
        torch.jit.trace(lambda b: ldiv.solve(D, b), B, check_trace=False)


# torch's own: it warns of a constant that it folds
FOLDED = pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node")


def pushes(f: Callable[..., Any], *x: Any) -> None:
    """The recorded tangent map is that of torch.func.jvp, along directions that came later."""
    push = torch.func.linearize(f, *x)[1]
    for scale in (1.0, -2.0):
        along = tuple(scale * torch.cos(p) for p in x)
        torch.testing.assert_close(push(*along), torch.func.jvp(f, x, along)[1])


@FOLDED
@pytest.mark.parametrize(("f", "p"), EVERY)
def test_linearize(f: Callable[..., Any], p: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch records with tangents that nobody has filled: whatever they are, nothing looks at them."""
    empty = torch.Tensor.new_empty

    def poisoned(x: Any, *args: Any, **kwargs: Any) -> Any:
        return empty(x, *args, **kwargs).fill_(torch.nan)

    monkeypatch.setattr(torch.Tensor, "new_empty", poisoned)
    pushes(f, p, B)
    pushes(torch.func.grad(lambda p: f(p, B).square().sum()), p)


@FOLDED
def test_linearize_of_complex_numbers_and_batches() -> None:
    z = torch.complex(D, D.T)
    pushes(lambda z, b: ldiv.solve(z, b).abs(), z, z[0])
    pushes(lambda b: ldiv.solve(torch.stack([D, 2 * D]), b), B)
    push = torch.func.linearize(SPARSE["solve"], V, B)[1]
    along = torch.stack([V, -V]), torch.stack([B, B])
    torch.testing.assert_close(torch.vmap(push)(*along), torch.stack([push(V, B), push(-V, B)]))


@FOLDED
def test_the_factor_of_the_point_serves_all_tangents() -> None:
    ldiv.clear_cache()
    push = torch.func.linearize(SPARSE["solve"], 3 * V, B)[1]
    push(V, B)
    before = ldiv.cache_info().factorizations
    for _ in range(3):
        push(V, B)
    assert before <= 2 and ldiv.cache_info().factorizations == before


@FOLDED
def test_bad_numbers_raise_at_the_point_and_at_the_tangent() -> None:
    with pytest.raises(ldiv.SingularMatrixError):
        torch.func.linearize(DENSE["solve"], torch.ones_like(D), B)
    push = torch.func.linearize(DENSE["solve"], D, B)[1]
    with pytest.raises(ValueError, match="finite"):
        push(D, B * torch.nan)


def test_functions_of_users_are_refused() -> None:
    scale = torch.tensor(2.0, **FLOAT)
    operator = ldiv.LinearOperator(
        lambda p, x: p[:, None] * x * scale, B, shape=(4, 4), assume_a="pos"
    )
    with pytest.raises(TypeError, match="with a function of yours"):
        make_fx(lambda b: ldiv.solve(operator, b, method="cg"))(B)
    with pytest.raises(TypeError, match="with a function of yours"):
        torch.func.linearize(lambda b: ldiv.solve(operator, b, method="cg"), B)


def test_nothing_of_a_record_is_left() -> None:
    """Work that is done once for a pattern must not consist of tensors without numbers."""
    fresh = ldiv.coo_array((V[:5], ([0, 1, 2, 3, 3], [0, 1, 2, 3, 1])), shape=(4, 4))
    f = lambda v: ldiv.solve(fresh.with_data(v), B) @ (fresh.with_data(v) @ B)
    torch.export.export(Module(lambda v, b: f(v)), (V[:5], B))
    make_fx(torch.func.grad(f), tracing_mode="fake", _allow_non_fake_inputs=True)(V[:5])
    with torch.enable_grad():
        v = V[:5].clone().requires_grad_()
        dense = ldiv.solve(fresh.with_data(v).toarray(), B) @ (fresh.with_data(v).toarray() @ B)
        wanted = torch.autograd.grad(dense, v)
        torch.testing.assert_close(torch.autograd.grad(f(v), v), wanted)


def test_matrices_are_trees() -> None:
    loss = lambda A, b: ldiv.solve(A, b).square().sum()
    found, _ = torch.func.grad(loss, (0, 1))(A, B)
    assert isinstance(found, ldiv.SparseArray) and found.structure == A.structure
    wanted = torch.func.grad(lambda v: loss(A.with_data(v), B))(V)
    torch.testing.assert_close(found.data, wanted)
    F = ldiv.factorized(A)
    found = torch.func.grad(lambda F: F.solve(B).square().sum())(F)
    assert isinstance(found, ldiv.Factorized)
    torch.testing.assert_close(torch.utils._pytree.tree_leaves(found)[0], wanted)
    many = A.with_data(torch.stack([V, 2 * V]))
    solved = torch.vmap(ldiv.solve, (0, None))(many, B)
    torch.testing.assert_close(solved, torch.stack([ldiv.solve(A, B), ldiv.solve(2 * A, B)]))


def of_size(n: int) -> tuple[Any, Any]:
    """A program, and a weak reference to the structure that is solved with in it."""
    index, ones = range(n), torch.ones(n, **FLOAT)
    matrix = ldiv.coo_array((2 * ones, (index, index)), shape=(n, n))
    structure = weakref.ref(matrix.structure)
    return make_fx(lambda v: ldiv.solve(matrix.with_data(v), ones))(2 * ones), structure


def alive(structures: list[Any]) -> int:
    ldiv.clear_cache()
    gc.collect()
    return sum(structure() is not None for structure in structures)


def test_a_program_owns_its_rules() -> None:
    """Copies of it and programs that are recorded from it do, too; one that is compiled may run for ever."""
    programs, structures = map(list, zip(*map(of_size, range(220, 226)), strict=True))
    copied = copy.deepcopy(programs[0])
    again = make_fx(programs[1])(4 * torch.ones(221, **FLOAT))
    compiled = torch.compile(programs[2], backend="aot_eager")
    for program, n in ((copied, 220), (again, 221), (compiled, 222)):
        assert torch.equal(program(4 * torch.ones(n, **FLOAT)), torch.full((n,), 0.25, **FLOAT))
    assert alive(structures) == 6
    del programs, program
    assert alive(structures) == 3
    assert torch.equal(copied(torch.ones(220, **FLOAT)), torch.ones(220, **FLOAT))
    assert torch.equal(again(torch.ones(221, **FLOAT)), torch.ones(221, **FLOAT))
    del copied, again, compiled
    assert alive(structures) == 1


def test_a_compiled_function_keeps_its_rules() -> None:
    index, ones = range(30), torch.ones(30, **FLOAT)

    @torch.compiler.allow_in_graph
    def f(v: Any, b: Any) -> Any:
        return ldiv.solve(ldiv.coo_array((v, (index, index)), shape=(30, 30)), b)

    compiled = torch.compile(lambda v, b: f(v, b), backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(2 * ones, ones), ones / 2)
    alive([])
    assert torch.equal(compiled(4 * ones, ones), ones / 4)


@pytest.mark.parametrize("tracing_mode", ["real", "fake", "symbolic"])
def test_before_dispatch(tracing_mode: str) -> None:
    """A program that is recorded before autograd has its rules, and no numbers of its example."""
    a = torch.eye(3, dtype=torch.float64) * 4 + 1
    b = torch.arange(3, dtype=torch.float64)
    program = make_fx(
        lambda a, b: 2 * ldiv.solve(a, b), tracing_mode=tracing_mode, pre_dispatch=True
    )(a, b)
    other = (2 * a).requires_grad_()
    y = program(other, b)
    torch.testing.assert_close(y, 2 * torch.linalg.inv(other) @ b)
    (found,) = torch.autograd.grad(y.sum(), other)
    (expected,) = torch.autograd.grad((2 * torch.linalg.inv(other) @ b).sum(), other)
    torch.testing.assert_close(found, expected)
