"""Programs with solves are exported, stored, and run in a process that has imported ldiv."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ldiv

jax = pytest.importorskip("jax")
pytest.importorskip("flatbuffers")
import jax.numpy as jnp  # noqa: E402
from jax import export  # noqa: E402

from ldiv.engines.libraries import native  # noqa: E402

jax.config.update("jax_enable_x64", True)
pytestmark = pytest.mark.skipif(native.native is None, reason=native.why_not)

RUN = """
import jax, jax.export, numpy as np, sys
IMPORT
jax.config.update("jax_enable_x64", True)
program = jax.export.deserialize(open(sys.argv[1], "rb").read())
a, b = np.load(sys.argv[2]), np.load(sys.argv[3])
value, (a_bar, b_bar) = program.call(a, b)
print(float(value), float(a_bar.sum()), float(b_bar.sum()))
a[1] = 1
try:
    jax.block_until_ready(program.call(a, b))
except Exception as error:
    print(error)
"""


def sparse(v: Any, b: Any) -> Any:
    return ldiv.solve(ldiv.coo_array((v.ravel(), np.indices((4, 4)).reshape(2, -1))), b)


def definite(v: Any) -> Any:
    v = (v + v.T).ravel()
    A = ldiv.coo_array((v, np.indices((4, 4)).reshape(2, -1)))
    return ldiv.logdet(A, assume_a="pos") + ldiv.solve(A, jnp.ones(4), assume_a="pos").sum()


def asked(a: Any, b: Any) -> Any:
    x = ldiv.solve(a, b)
    return (
        jnp.sum(x**2)
        + jnp.sum(jax.vmap(sparse)(a, b) ** 3)
        + jnp.sum(jax.vmap(definite)(a))
        + jnp.sum(ldiv.slogdet(a)[1])
        + jnp.sum(ldiv.inv(a))
    )


@pytest.fixture
def problem() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((5, 4, 4)) + 6 * np.eye(4), rng.standard_normal((5, 4, 2))


def symbolic() -> tuple[Any, Any]:
    (n,) = export.symbolic_shape("n")
    return jax.ShapeDtypeStruct((n, 4, 4), float), jax.ShapeDtypeStruct((n, 4, 2), float)


@pytest.mark.parametrize("first", ["import ldiv", "import ldiv; ldiv.jax_export_checks()"])
def test_in_another_process(problem: Any, tmp_path: Path, first: str) -> None:
    f = jax.jit(jax.value_and_grad(asked, (0, 1)))
    program = export.export(f, disabled_checks=ldiv.jax_export_checks())(*symbolic())
    paths = [tmp_path / name for name in ("program", "a.npy", "b.npy")]
    paths[0].write_bytes(program.serialize())
    for path, x in zip(paths[1:], problem, strict=True):
        np.save(path, x)
    code = RUN.replace("IMPORT", first)
    if "checks" in first:
        code = "import ldiv\n" + code
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, paths)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    numbers, error = done.stdout.split("\n", 1)
    value, grads = f(*problem)
    expected = [value, *(g.sum() for g in grads)]
    np.testing.assert_allclose(list(map(float, numbers.split())), expected, rtol=1e-12)
    assert "SingularMatrixError" in error


@pytest.mark.parametrize("vmapped", [False, True])
def test_as_the_program_itself(problem: Any, vmapped: bool) -> None:
    f = jax.grad(lambda a, b: jnp.sum(jnp.sin(ldiv.solve(a, b, assume_a="her"))))
    if vmapped:
        f = jax.vmap(f)
    a, b = problem
    a = a + a.mT
    program = export.export(jax.jit(f), disabled_checks=ldiv.jax_export_checks())(*symbolic())
    np.testing.assert_allclose(program.call(a, b), f(a, b), rtol=1e-11, atol=1e-13)


def test_what_is_refused(problem: Any) -> None:
    """JAX refuses, without the promise, and names the call; ldiv refuses engines in Python."""
    with pytest.raises(ValueError, match="ldiv_dense_3"):
        export.export(jax.jit(asked))(*problem)
    A = ldiv.eye_array(4, like=jnp.ones(1)) * 3
    with pytest.raises(NotImplementedError, match="outside of the exported"):
        export.export(
            jax.jit(lambda v, b: ldiv.solve(ldiv.csr_array(A).with_data(v), b, method="superlu")),
            disabled_checks=ldiv.jax_export_checks(),
        )(jnp.ones(4), problem[1][0])


MATRIX = """
import jax, jax.export, numpy as np, scipy.sparse, sys
import ldiv
jax.config.update("jax_enable_x64", True)
program = jax.export.deserialize(open(sys.argv[1], "rb").read())
K = scipy.sparse.csr_array(np.load(sys.argv[2])).tocsc()
A = ldiv.csc_array((jax.numpy.array(K.data), K.indices, K.indptr), shape=K.shape)
value, slope = program.call(A.T, np.ones(4))
expected = np.linalg.solve(K.T.toarray(), np.ones(4))
adjoint = -np.linalg.solve(K.toarray(), 2 * expected)
np.testing.assert_allclose(value, expected @ expected, rtol=1e-13)
np.testing.assert_allclose(slope.toarray(), np.outer(adjoint, expected) * (K.T.toarray() != 0), rtol=1e-12)
try:
    program.call(A, np.ones(4))
except ValueError as error:
    print("other pattern" if "same pytree structure" in str(error) else error)
"""


def test_a_matrix_is_an_argument(tmp_path: Path) -> None:
    """The pattern is stored with the program; only a matrix on the same pattern is taken."""
    dense = np.diag([4.0, 3.0, 5.0, 2.0]) + np.diag([1.0, 2.0, 1.0], 1)
    at = np.nonzero(dense)
    K = ldiv.coo_array((jnp.array(dense[at]), at), shape=(4, 4)).tocsc()
    f = jax.jit(jax.value_and_grad(lambda A, b: (ldiv.solve(A, b) ** 2).sum()))
    program = export.export(f, disabled_checks=ldiv.jax_export_checks())(K.T, jnp.ones(4))
    paths = [str(tmp_path / name) for name in ("program", "K.npy")]
    Path(paths[0]).write_bytes(program.serialize())
    np.save(paths[1], dense)
    done = subprocess.run(
        [sys.executable, "-c", MATRIX, *paths], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "other pattern\n"
