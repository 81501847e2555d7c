"""Factorizations are remembered: counted, bounded, never stale, safe in threads."""

import threading

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv

torch = pytest.importorskip("torch")


def poisson(m, dtype=torch.float64):
    line = sp.diags_array([-np.ones(m - 1), 2 * np.ones(m), -np.ones(m - 1)], offsets=[-1, 0, 1])
    matrix = sp.csc_array(sp.kron(line, sp.eye_array(m)) + sp.kron(sp.eye_array(m), line))
    return ldiv.csc_array(
        (torch.asarray(matrix.data, dtype=dtype), matrix.indices, matrix.indptr), shape=matrix.shape
    )


def dense(n):
    return torch.asarray(np.random.default_rng(0).standard_normal((n, n))) + 5 * torch.eye(
        n, dtype=torch.float64
    )


def matrices():
    A = poisson(6)
    return [
        pytest.param(A.with_data, A.data, "gen", id="sparse"),
        pytest.param(A.with_data, A.data, "pos", id="sparse-pos"),
        pytest.param(lambda v: v, dense(36), "gen", id="dense"),
        pytest.param(
            lambda v: (v + v.T) / 2, 10 * torch.eye(36) + dense(36), "pos", id="dense-pos"
        ),
    ]


def test_vmap_over_right_hand_sides_is_one_solve():
    A, before = poisson(6), ldiv.cache_info().solves
    torch.func.vmap(lambda b: ldiv.solve(A, b))(torch.eye(36, dtype=torch.float64))
    assert ldiv.cache_info().solves == before + 1


@pytest.mark.parametrize("through_data", [False, True])
@pytest.mark.parametrize(("matrix", "values", "assume_a"), matrices())
def test_a_change_in_place_never_finds_a_stale_factor(matrix, values, assume_a, through_data):
    b = torch.ones(36, dtype=torch.float64)
    v = values.clone()
    A = matrix(v) if assume_a == "gen" else None
    before = ldiv.solve(A if A is not None else matrix(v), b, assume_a=assume_a)
    target = v.data if through_data else v
    target.mul_(2)
    after = ldiv.solve(A if A is not None else matrix(v), b, assume_a=assume_a)
    torch.testing.assert_close(after, before / 2)
    target[..., 17] *= 1 + 1e-9  # one value, which a key of samples could miss
    again = ldiv.solve(matrix(v), b, assume_a=assume_a)
    assert not torch.equal(again, after)


def test_a_change_in_place_numpy():
    A = np.diag([1.0, 2.0, 4.0])
    first = ldiv.solve(A, np.ones(3))
    A[1, 1] = 8.0
    np.testing.assert_array_equal(first, [1, 0.5, 0.25])
    np.testing.assert_array_equal(ldiv.solve(A, np.ones(3)), [1, 0.125, 0.25])


def test_factorized_holds_its_factor():
    A, b = poisson(10), torch.ones(100, dtype=torch.float64)
    F = ldiv.factorized(A)
    for _ in range(3):
        F.solve(b)
    F.logabsdet()
    assert ldiv.cache_info().factorizations == 1
    del F
    assert ldiv.cache_info().entries == 0


@pytest.mark.parametrize("bad", [-1, 1.5, True, "1 GB"])
def test_bad_limit(bad):
    with pytest.raises(ValueError, match="nbytes: expected a number of bytes >= 0"):
        ldiv.set_cache_limit(bad)


def test_an_equal_pattern_is_analysed_once():
    for _ in range(3):
        ldiv.solve(poisson(7), torch.ones(49, dtype=torch.float64))
    assert ldiv.cache_info().analyses == 1


def test_threads_share_safely():
    A, b = poisson(20), torch.ones(400, dtype=torch.float64)
    expected = {s: ldiv.solve(A * float(s), b) for s in (1, 2, 3)}
    ldiv.clear_cache()
    wrong = []

    def work(seed):
        scales = np.random.default_rng(seed).integers(1, 4, 20)
        wrong.extend(
            s for s in scales if not torch.allclose(ldiv.solve(A * float(s), b), expected[int(s)])
        )

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(25)
    assert not wrong


@pytest.mark.parametrize("stage", ["factor", "solve"])
def test_the_interpreter_is_free_meanwhile(stage):
    """A second thread makes progress while one factors or solves; a machine that is too fast or too
    busy to show it gets more work.
    """
    assert any(steps_meanwhile(stage, side) > 20 for side in (200, 300, 600))


def steps_meanwhile(stage, side):
    """Count how often this thread is woken while another works: a few times if that keeps the
    interpreter to itself.
    """
    from ldiv.engines.direct import superlu

    A = poisson(side)
    values = A.data.numpy()
    symbolic = superlu.analyze(A.structure)
    factor = superlu.factor(symbolic, A.structure, values, "gen") if stage == "solve" else None
    block = np.ones((A.shape[0], 16))
    done = threading.Event()

    def work():
        if factor is None:
            superlu.factor(symbolic, A.structure, values, "gen")
        else:
            factor.solve(block, "N")
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    steps = 0
    while not done.wait(0.001):
        steps += 1
    thread.join(25)
    return steps
