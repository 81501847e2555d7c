"""Calls of ldiv in exported programs of JAX."""

from __future__ import annotations

from typing import Any

from ldiv.core.frameworks.dispatch import frontend_named
from ldiv.errors import value_error
from ldiv.matrices import sparse_array  # noqa: F401  (an argument of programs: registered with JAX)


def jax_export_checks() -> list[Any]:
    """Return the `disabled_checks` with which `jax.export.export` accepts ldiv's compiled calls.

    Returns
    -------
    disabled_checks : list of jax.export.DisabledSafetyCheck
        One for each of these calls; none where ldiv was installed without a compiler.

    Raises
    ------
    ValueError
        If JAX has not been imported.

    Notes
    -----
    JAX exports only calls whose meaning is promised not to change. In programs for the CPU, ldiv
    promises it for dense `solve`, `inv`, `logdet`, `slogdet`, `solve_triangular`, `cholesky` and
    `lu_factor`. The same holds for `solve`, `logdet` and `slogdet` of sparse matrices by ldiv's own
    LU or Cholesky, and for the derivatives of all of these. The name of each call ends with a
    version: arguments, results and meaning of a call of this name do not change. The process that
    runs the program must import ldiv after JAX, in this version or a later one that still has the
    call; if it imports ldiv first, it must call this function after both. A call that the compiled
    code declines goes on in Python, which answers or raises. Other engines for sparse matrices are
    written in Python, and a program with one of them cannot be exported.

    Examples
    --------
    >>> import jax, jax.export, jax.numpy as jnp, ldiv
    >>> f = jax.jit(jax.vmap(jax.grad(lambda A, b: ldiv.solve(A, b).sum(), 1)))
    >>> (n,) = jax.export.symbolic_shape("n")
    >>> A = jax.ShapeDtypeStruct((n, 2, 2), jnp.float32)
    >>> b = jax.ShapeDtypeStruct((n, 2), jnp.float32)
    >>> checks = ldiv.jax_export_checks()
    >>> program = jax.export.export(f, disabled_checks=checks)(A, b)
    >>> program.call(2 * jnp.stack([jnp.eye(2, dtype=A.dtype)] * 3), jnp.ones((3, 2), b.dtype)).shape
    (3, 2)
    """
    if (frontend := frontend_named("jax")) is None:
        raise value_error("jax_export_checks", "JAX", "no JAX yet", "Import it first: import jax.")
    return frontend.export_checks()
