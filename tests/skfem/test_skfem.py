"""scikit-fem through ldiv: the same matrices, systems and solutions as scikit-fem's own, and the
derivatives that it does not have.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv

skfem = pytest.importorskip("skfem", reason="no scikit-fem: pip install 'ldiv[skfem]'")
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from skfem.helpers import dot, grad  # noqa: E402

import ldiv.skfem as adapter  # noqa: E402

F64 = torch.float64
RNG = np.random.default_rng(0)


def left(x):
    return x[0] == 0


def stiffness_form(complex_=False):
    dtype = np.complex128 if complex_ else np.float64
    factor = 1 + 0.5j if complex_ else 1.0
    return skfem.BilinearForm(lambda u, v, w: factor * dot(grad(u), grad(v)) + u * v, dtype=dtype)


WEIGHTED = skfem.BilinearForm(lambda u, v, w: w.c * (dot(grad(u), grad(v)) + u * v))
LOAD = skfem.LinearForm(lambda v, w: w.x[0] * v)
BASES = {
    "line": lambda: skfem.Basis(skfem.MeshLine().refined(2), skfem.ElementLineP2()),
    "triangles": lambda: skfem.Basis(skfem.MeshTri().refined(2), skfem.ElementTriP1()),
    "quads": lambda: skfem.Basis(skfem.MeshQuad().refined(1), skfem.ElementQuad2()),
    "tets": lambda: skfem.Basis(skfem.MeshTet(), skfem.ElementTetP1()),
    "facets": lambda: skfem.FacetBasis(skfem.MeshTri().refined(1), skfem.ElementTriP1()),
}


@pytest.mark.parametrize("name", BASES)
def test_assembly_is_that_of_scikit_fem(name):
    """A coefficient per element and one per quadrature point, in matrices and vectors."""
    basis = BASES[name]()
    points = basis.dx.shape
    c = RNG.uniform(0.5, 2.0, points)
    constant = np.repeat(c[:, :1], points[1], axis=1)
    form, load = stiffness_form(), LOAD
    weighted_load = skfem.LinearForm(lambda v, w: w.c * w.x[0] * v)
    for coefficient, field, make in (
        (c[:, 0], constant, lambda f: f.elemental(basis)),
        (c, c, lambda f: adapter.at_points(f, basis)),
    ):
        K = adapter.Assembly(make(form))(coefficient)
        assert K.nnz == form.elemental(basis).data.size
        np.testing.assert_allclose(
            K.toarray(), WEIGHTED.assemble(basis, c=field).toarray(), rtol=1e-12, atol=1e-14
        )
        f = adapter.Assembly(make(load))(coefficient)
        np.testing.assert_allclose(
            f, weighted_load.assemble(basis, c=field), rtol=1e-12, atol=1e-15
        )


def test_rectangular_forms_batches_and_dtypes():
    mesh = skfem.MeshTri().refined(1)
    u, v = (skfem.Basis(mesh, e(), intorder=3) for e in (skfem.ElementTriP1, skfem.ElementTriP2))
    mixed = adapter.Assembly(skfem.BilinearForm(lambda u, v, w: u * v).elemental(u, v))
    c = RNG.uniform(0.5, 2.0, (3, u.nelems))
    K = mixed(c)
    assert K.shape == (3, v.N, u.N)
    np.testing.assert_allclose(K.toarray()[1], mixed(c[1]).toarray(), rtol=1e-14)
    assert mixed(c.astype(np.float32)).dtype == np.float32
    assert mixed(c + 0j).dtype == np.complex128
    np.testing.assert_allclose(
        mixed(np.array(2.0)).toarray(), 2 * mixed(np.ones(u.nelems)).toarray()
    )
    complex_form = adapter.Assembly(stiffness_form(complex_=True).elemental(u))
    K = complex_form(torch.ones(u.nelems, dtype=torch.float32))
    assert K.dtype == torch.complex64
    assert complex_form(np.ones((0, u.nelems))).shape == (0, u.N, u.N)


def test_one_pattern_serves_every_coefficient():
    basis = BASES["triangles"]()
    stiffness = adapter.Assembly(stiffness_form().elemental(basis))
    f = torch.from_numpy(LOAD.assemble(basis))
    for _ in range(4):
        c = torch.rand(basis.nelems, dtype=F64, requires_grad=True)
        system = adapter.condense(stiffness(c + 0.5), f, D=basis.get_dofs())
        (adapter.solve(*system, assume_a="pos") @ f).backward()
    info = ldiv.cache_info()
    assert info.analyses == 1 and info.factorizations == 4


# -- boundary conditions --------------------------------------------------------------------------


@pytest.mark.parametrize("complex_", [False, True])
def test_condense_is_that_of_scikit_fem(complex_):
    basis = BASES["triangles"]()
    K = stiffness_form(complex_).assemble(basis)
    f = LOAD.assemble(basis)
    x = RNG.standard_normal(basis.N).astype(K.dtype)
    D = basis.get_dofs()
    for keywords in (
        {"D": D},
        {"D": D, "x": x},
        {"I": basis.complement_dofs(D)[::-1].copy(), "x": x},
        {"D": {"all": D, "left": basis.get_dofs(left)}},
        {"D": np.zeros(0, np.int64), "x": x},
    ):
        theirs = skfem.condense(K, f, **keywords)
        ours = adapter.condense(K, f, **keywords)
        np.testing.assert_allclose(ours[0].toarray(), theirs[0].toarray())
        np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-13, atol=1e-14)
        assert np.array_equal(ours[3], theirs[3])
        u = skfem.solve(*theirs)
        np.testing.assert_allclose(adapter.solve(*ours), u, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(
            skfem.solve(*theirs, solver=adapter.solver()), u, rtol=1e-10, atol=1e-12
        )
    np.testing.assert_allclose(
        adapter.condense(K, x=x, D=D, expand=False)[1],
        skfem.condense(K, x=x, D=D, expand=False)[1],
        rtol=1e-13,
        atol=1e-14,
    )
    only = adapter.condense(K, D=D, expand=False)
    np.testing.assert_allclose(only.toarray(), skfem.condense(K, D=D, expand=False).toarray())


def test_what_stands_at_free_unknowns_of_x_is_not_read():
    basis = BASES["triangles"]()
    K, f, x = stiffness_form().assemble(basis), LOAD.assemble(basis), np.full(basis.N, np.nan)
    x[basis.get_dofs().flatten()] = 1.0
    u = adapter.solve(*adapter.condense(K, f, x=x, D=basis.get_dofs()))
    assert np.isfinite(u).all() and (u[basis.get_dofs().flatten()] == 1).all()


def test_blocks_and_batches():
    basis = BASES["triangles"]()
    D, c = basis.get_dofs(), RNG.uniform(0.5, 2.0, (2, basis.nelems))
    stiffness = adapter.Assembly(stiffness_form().elemental(basis))
    F, x = RNG.standard_normal((basis.N, 3)), RNG.standard_normal(basis.N)
    u = adapter.solve(*adapter.condense(stiffness(c), F, x=x, D=D))
    assert u.shape == (2, basis.N, 3)
    one = adapter.solve(*adapter.condense(stiffness(c[1]), F[:, 2].copy(), x=x, D=D))
    np.testing.assert_allclose(u[1, :, 2], one, rtol=1e-10, atol=1e-12)


def test_eigenpairs():
    basis = BASES["triangles"]()
    laplace = skfem.BilinearForm(lambda u, v, _: dot(grad(u), grad(v)))
    K, M = laplace.assemble(basis), skfem.BilinearForm(lambda u, v, _: u * v).assemble(basis)
    system = skfem.condense(K, M, D=basis.get_dofs())
    expected = skfem.solve(*system, solver=skfem.solver_eigen_scipy_sym(k=3, sigma=0))[0]
    w, X = skfem.solve(*system, solver=adapter.eigen_solver(k=3))
    np.testing.assert_allclose(w, np.sort(expected), rtol=1e-9)
    assert X.shape == (basis.N, 3) and not X[basis.get_dofs().flatten()].any()
    v, Y = adapter.solve(*adapter.condense(K, M, D=basis.get_dofs()), k=3)
    np.testing.assert_allclose(v, w, rtol=1e-12)
    np.testing.assert_allclose(abs(Y.T @ M @ X).diagonal()[:1], 1, rtol=1e-8)
    assert len(skfem.solve(*system, solver=adapter.eigen_solver(), k=2)[0]) == 2


# -- derivatives ----------------------------------------------------------------------------------


def small(points=False):
    basis = skfem.Basis(skfem.MeshTri().refined(1), skfem.ElementTriP1())
    form = stiffness_form()
    elemental = adapter.at_points(form, basis) if points else form.elemental(basis)
    return basis, adapter.Assembly(elemental)


@pytest.mark.parametrize("points", [False, True])
def test_torch_derivatives(points):
    """The coefficient, the load and the prescribed values are differentiated in every mode."""
    basis, stiffness = small(points)
    D = basis.get_dofs(left)
    shape = basis.dx.shape if points else (basis.nelems,)
    c = torch.from_numpy(RNG.uniform(0.5, 2.0, shape)).requires_grad_()
    f, x = (torch.from_numpy(RNG.standard_normal(basis.N)).requires_grad_() for _ in "fx")

    def u(c, f, x):
        return adapter.solve(*adapter.condense(stiffness(c), f, x=x, D=D), assume_a="pos")

    assert torch.autograd.gradcheck(u, (c, f, x), check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(u, (c, f, x))
    per = torch.func.vmap(u, (0, None, None))(
        torch.stack([c, 2 * c]).detach(), f.detach(), x.detach()
    )
    assert torch.allclose(per[1], u(2 * c, f, x))


def test_eigenvalues_have_gradients():
    basis, stiffness = small()
    inertia = adapter.Assembly(skfem.BilinearForm(lambda u, v, _: u * v).elemental(basis))
    c = torch.from_numpy(RNG.uniform(0.5, 2.0, basis.nelems)).requires_grad_()

    def lowest(c):
        system = adapter.condense(stiffness(c), inertia(1 / c), D=basis.get_dofs(left))
        w, X = adapter.solve(*system, k=2)
        return w, (X**2).sum(0)

    assert torch.autograd.gradcheck(lowest, (c,))


def test_jax():
    """The same numbers and gradients as with PyTorch, under jit."""
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    basis, stiffness = small()
    jax.config.update("jax_enable_x64", True)
    c, f, x = (RNG.uniform(0.5, 2.0, n) for n in (basis.nelems, basis.N, basis.N))

    def loss(c, f, x):
        system = adapter.condense(stiffness(c), f, x=x, D=basis.get_dofs(left))
        return (adapter.solve(*system, assume_a="pos") ** 2).sum()

    value, bars = jax.jit(jax.value_and_grad(loss, (0, 1, 2)))(c, f, x)
    args = [torch.from_numpy(a).requires_grad_() for a in (c, f, x)]
    loss(*args).backward()
    np.testing.assert_allclose(value, loss(c, f, x), rtol=1e-12)
    for bar, arg in zip(bars, args, strict=True):
        np.testing.assert_allclose(bar, arg.grad, rtol=1e-9, atol=1e-12)


def test_constants_beside_tensors():
    """The load, the matrix, the mass and the prescribed values, of NumPy and SciPy."""
    basis, stiffness = small()
    D, f = basis.get_dofs(left), LOAD.assemble(basis)
    c = RNG.uniform(1.0, 2.0, basis.nelems)
    K, x = stiffness(c).to_scipy(), RNG.uniform(1.0, 2.0, basis.N)
    wanted = adapter.solve(*adapter.condense(K, f, x=x, D=D))
    tensors = [torch.tensor(v, requires_grad=True) for v in (c, f, x)]
    for own in (stiffness(tensors[0]), K):
        for load in (f, f.tolist(), tensors[1]):
            for given in (x, tensors[2]):
                u = adapter.solve(*adapter.condense(own, load, x=given, D=D))
                np.testing.assert_allclose(torch.as_tensor(u).detach(), wanted, rtol=1e-10)
    mass = adapter.Assembly(skfem.BilinearForm(lambda u, v, w: u * v).elemental(basis))
    w, _ = adapter.solve(*adapter.condense(K, mass(tensors[0]), D=D), k=1)
    (slope,) = torch.autograd.grad(w.sum(), tensors[0])
    np.testing.assert_allclose(slope @ tensors[0].detach(), -w.sum().detach(), rtol=1e-8)
    np.testing.assert_allclose(stiffness([1] * basis.nelems).data, stiffness(1.0).data)


def test_a_vector_for_a_batch_of_matrices():
    basis, stiffness = small()
    D, f, c = basis.get_dofs(left), LOAD.assemble(basis), RNG.uniform(0.5, 2.0, (2, basis.nelems))
    u = adapter.solve(*adapter.condense(stiffness(c), f, D=D))
    each = [adapter.solve(*adapter.condense(stiffness(one), f, D=D)) for one in c]
    np.testing.assert_allclose(u, each, rtol=1e-10)


# -- errors ---------------------------------------------------------------------------------------


def test_errors():
    basis, stiffness = small()
    K = stiffness(np.ones(basis.nelems))
    f = np.ones(basis.N)
    with pytest.raises(TypeError, match="has lost its elements"):
        adapter.Assembly(sp.eye_array(3))
    form = stiffness_form().elemental(basis)
    with pytest.raises(ValueError, match="add the matrices"):
        adapter.Assembly(form + form)
    with pytest.raises(ValueError, match="a number for each element"):
        stiffness(np.ones(basis.N))
    with pytest.raises(TypeError, match="float64"):
        stiffness(np.ones(basis.nelems, str))
    with pytest.raises(TypeError, match="BilinearForm"):
        adapter.at_points(lambda u, v, w: u * v, basis)
    for keywords in ({}, {"D": np.array([0]), "I": np.array([1])}):
        with pytest.raises(ValueError, match="either I or D"):
            adapter.condense(K, f, **keywords)
    with pytest.raises(ValueError, match="unknowns from 0"):
        adapter.condense(K, f, D=np.array([basis.N]))
    with pytest.raises(ValueError, match="unknowns from 0"):
        adapter.condense(K, f, D=[-1])
    with pytest.raises(ValueError, match="twice"):
        adapter.condense(K, f, I=[1, 1])
    with pytest.raises(TypeError, match="flatnonzero"):
        adapter.condense(K, f, D=np.zeros(basis.N, bool))
    with pytest.raises(TypeError, match="vector of integers"):
        adapter.condense(K, f, D="left")
    with pytest.raises(ValueError, match="a row for each unknown"):
        adapter.condense(K, f[1:], D=[0])
    with pytest.raises(ValueError, match="a number for each unknown"):
        adapter.condense(K, f, x=f[1:], D=[0])
    with pytest.raises(ValueError, match="of the same basis"):
        adapter.condense(K, ldiv.eye_array(3), D=[0])
    with pytest.raises(ValueError, match="the condensed system"):
        adapter.expand(f, f, [1, 2])
    floating = skfem.BilinearForm(lambda u, v, _: dot(grad(u), grad(v))).assemble(basis)
    with pytest.raises(ldiv.SingularMatrixError):
        adapter.solve(floating, f)
