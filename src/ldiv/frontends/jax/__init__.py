"""JAX: one primitive for all rules, one for their tangent maps, and one for work on the host.

Imported here is what `ldiv.core.frontend` asks of a front end, and no more. One idea per file:

    values            whose an array is, where its numbers are, and whether they are known yet
    sparse_matrices   BCOO and BCSR
    callbacks         work on the host, the third primitive: there only NumPy runs
    checks            errors that depend on numbers of a compiled program
    compiled_calls    rules that are calls of compiled code
    factor_primitive  the factors that those take
    partitioned       batches over several devices
    evaluation        the kernel of a rule, and the factors that it is given, makes and hands on
    kernels           the kernel on NumPy arrays, compiled or of a few numbers
    cotangents        the rule's vjp, between JAX's convention and ours
    tangent_primitive the tangent map of a rule, linear, whose transpose is the rule's vjp
    rule_primitive    the rule itself: shapes, forward mode, transposition, batching, lowering
    transforms        loops and branches, and derivatives of functions of users
    propagation       where a Jacobian may not be zero
    propagation_rules what each operation does with that
    propagation_windows   and those on images
    dense             dense kernels
    user_transforms   JAX's own, for whoever checks derivatives
    private           what JAX does not promise to keep

A rule is staged whole and becomes its kernel when it is compiled; until then every transformation
sees the rule.
"""

from ldiv.frontends.jax.callbacks import host_callback, on_host
from ldiv.frontends.jax.checks import check_or_raise
from ldiv.frontends.jax.compiled_calls import export_checks
from ldiv.frontends.jax.dense import (
    cholesky,
    eigh,
    lu_factor,
    lu_pivoted,
    lu_solve,
    product,
    qr,
    row_order,
    scatter,
    sign_of_rows,
    solve_triangular,
    svd,
    svdvals,
)
from ldiv.frontends.jax.propagation import dependence
from ldiv.frontends.jax.rule_primitive import bind
from ldiv.frontends.jax.sparse_matrices import sparse, sparse_parts
from ldiv.frontends.jax.transforms import compiled, each, either, jvp, loop, vjp, vmap
from ldiv.frontends.jax.user_transforms import OwnTransforms
from ldiv.frontends.jax.values import (
    asnumpy,
    constant,
    device,
    differentiates,
    host,
    owns,
    promoted,
    put,
    signature,
    standard_normal,
    traced,
)
