"""M by every way that it can be given: the answer is the same, the steps are fewer; multigrid
with rigid motions, built once.
"""

import sys

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)


def poisson(m):
    t = sp.diags_array([-np.ones(m - 1), 2 * np.ones(m), -np.ones(m - 1)], offsets=[-1, 0, 1])
    return sp.csr_array(sp.kron(t, sp.eye_array(m)) + sp.kron(sp.eye_array(m), t))


def rhs(a, *k):
    b = RNG.standard_normal((a.shape[0], *k))
    return b + 1j * RNG.standard_normal(b.shape) if a.dtype.kind == "c" else b


@pytest.mark.parametrize("method", ["cg", "minres", "gmres", "bicgstab"])
def test_every_kind_of_preconditioner(method):
    a = poisson(16) + sp.diags_array(np.geomspace(1, 1e3, 256))
    A, b = ldiv.asarray(sp.csr_array(a)), rhs(a)
    inverse = 1 / a.diagonal()
    kinds = {
        "name": "jacobi",
        "matrix": ldiv.Matrix(ldiv.structures.Diagonal(256), inverse),
        "function": ldiv.LinearOperator(
            lambda d, x: d[:, None] * x, inverse, shape=a.shape, assume_a="pos"
        ),
        "nearby": ldiv.factorized(ldiv.asarray(sp.csr_array(1.1 * a)), assume_a="pos"),
        "preconditioner": ldiv.preconditioner(A, "jacobi"),
    }
    _, plain = ldiv.solve(A, b, assume_a="pos", method=method, info=True)
    for name, M in kinds.items():
        x, info = ldiv.solve(A, b, assume_a="pos", method=method, M=M, info=True)
        assert np.allclose(a @ x, b, atol=1e-7), name
        assert info.iterations <= 1.5 * plain.iterations + 5, name
        if name == "nearby":
            assert info.iterations <= 5


def test_rigid_motions_help_multigrid():
    pytest.importorskip("pyamg")
    fem = pytest.importorskip("skfem")
    from skfem.models.elasticity import lame_parameters, linear_elasticity

    basis = fem.Basis(
        fem.MeshQuad.init_tensor(np.linspace(0, 4, 33), np.linspace(0, 1, 9)).with_defaults(),
        fem.ElementVector(fem.ElementQuad1()),
    )
    k = linear_elasticity(*lame_parameters(1.0, 0.3)).assemble(basis)
    inside = basis.complement_dofs(basis.get_dofs("left"))
    a = sp.csr_array(k[inside][:, inside])
    x, y = basis.doflocs
    even = np.arange(basis.N) % 2 == 0
    modes = np.stack([even, ~even, np.where(even, -y, x)], axis=1)[inside].astype(float)
    A, b = ldiv.asarray(a), RNG.standard_normal(a.shape[0])
    steps = {}
    for name, near in (("constants", None), ("rigid", modes)):
        M = ldiv.preconditioner(A, "amg", near_nullspace=near)
        got, info = ldiv.solve(A, b, assume_a="pos", M=M, method="cg", info=True)
        assert np.allclose(a @ got, b, atol=1e-7)
        steps[name] = info.iterations
    assert steps["rigid"] < steps["constants"], steps


def test_one_hierarchy_serves_value_and_gradient():
    pytest.importorskip("pyamg")
    a = sp.coo_array(poisson(12))
    v, b = torch.tensor(a.data, requires_grad=True), torch.tensor(rhs(a))
    x = ldiv.solve(
        ldiv.coo_array((v, a.coords), shape=a.shape), b, assume_a="pos", M="amg", method="cg"
    )
    x.square().sum().backward()
    assert ldiv.cache_info().factorizations == 1


def test_amg_without_pyamg_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyamg", None)
    with pytest.raises(ldiv.EngineError, match=r"pip install ldiv\[amg\]"):
        ldiv.solve(ldiv.asarray(poisson(4)), np.ones(16), assume_a="pos", M="amg")
