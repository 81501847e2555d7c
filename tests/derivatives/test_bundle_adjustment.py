"""Cameras and points: the order of the factorization eliminates the points, as a Schur complement does."""

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv
from ldiv.engines.libraries.native import native

torch = pytest.importorskip("torch")

OF_CAMERA, OF_POINT, SEEN = 3, 2, 3  # unknowns, and the cameras that see a point


def seen_by(cameras, points, scattered):
    """The camera and the point of each observation."""
    random = np.random.default_rng(0)
    first = random.integers(0, cameras - SEEN, points)[:, None]
    which = first + np.arange(SEEN)
    if scattered:
        which = np.argsort(random.random((points, cameras)), axis=1)[:, :SEEN]
    return which.ravel(), np.repeat(np.arange(points), SEEN)


@pytest.mark.skipif(native is None, reason="fill is counted by compiled code")
@pytest.mark.parametrize("scattered", [False, True])
def test_fill_is_that_of_the_schur_complement(scattered):
    cameras, points = 40, 3000
    camera, point = seen_by(cameras, points, scattered)
    meets = sp.coo_array((np.ones(len(camera)), (camera, point)), shape=(cameras, points))
    blocks = lambda count, size: sp.kron(sp.eye_array(count), np.ones((size, size)))
    between = sp.kron(meets, np.ones((OF_CAMERA, OF_POINT)))
    of_all = sp.block_array(
        [[blocks(cameras, OF_CAMERA), between], [between.T, blocks(points, OF_POINT)]]
    )
    left = sp.kron(meets @ meets.T, np.ones((OF_CAMERA, OF_CAMERA)))

    def fill(a):
        a = a + sp.diags_array(2.0 * np.asarray(abs(a).sum(1)).ravel())
        return ldiv.explain(a.tocsr(), np.ones(a.shape[0]), assume_a="pos").fill

    of_points = points * OF_POINT * (OF_POINT + 1) / 2 + between.nnz
    assert fill(of_all) <= 1.05 * (of_points + fill(left))


def test_gradient():
    """Planar bearings: x and its derivative by dense matrices."""
    cameras, points = 5, 40
    camera, point = map(torch.tensor, seen_by(cameras, points, False))
    random = np.random.default_rng(1)
    places = np.stack([np.arange(cameras), 0 * np.arange(cameras), 0.1 * np.arange(cameras)], 1)
    marks = random.uniform((0, 3), (cameras, 6), (points, 2))
    start = torch.tensor(np.concatenate([places.ravel(), marks.ravel()]))

    def bearings(x):
        c = x[: places.size].reshape(places.shape)[camera]
        q = x[places.size :].reshape(marks.shape)[point] - c[:, :2]
        return torch.atan2(q[:, 0], q[:, 1]) - c[:, 2]

    def residual(x, measured):
        return torch.cat([bearings(x) - measured, 0.1 * (x - start)[: places.size]])

    count = len(camera)
    columns = np.concatenate(
        [
            OF_CAMERA * camera.numpy()[:, None] + np.arange(OF_CAMERA),
            places.size + OF_POINT * point.numpy()[:, None] + np.arange(OF_POINT),
        ],
        axis=1,
    )
    pattern = (
        np.append(np.repeat(np.arange(count), columns.shape[1]), count + np.arange(places.size)),
        np.append(columns.ravel(), np.arange(places.size)),
    )
    noise = torch.tensor(1e-3 * random.standard_normal(count))
    measured = (bearings(start) + noise).requires_grad_()
    x = ldiv.least_squares(residual, start, measured, pattern=pattern)
    (g,) = torch.autograd.grad((x**2).sum(), measured)

    def slope(x, measured):
        return torch.func.grad(lambda x: 0.5 * (residual(x, measured) ** 2).sum())(x)

    x = x.detach()
    hessian, mixed = (torch.func.jacrev(slope, i)(x, measured.detach()) for i in (0, 1))
    assert abs(slope(x, measured.detach())).max() < 1e-12
    expected = -mixed.T @ torch.linalg.solve(hessian, 2 * x)
    torch.testing.assert_close(g, expected, rtol=1e-8, atol=1e-10)
