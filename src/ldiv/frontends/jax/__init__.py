"""JAX: one primitive for all rules, one for their tangent maps, and one for work on the host.

This file imports the names that `ldiv.core.frameworks.frontend` requires, and no more. One idea per file:

    private                   the private parts of JAX
    values                    queries of arrays: type, device, whether values are known
    sparse_matrices           BCOO and BCSR
    dense                     dense kernels
    devices/callbacks         work on the host, the third primitive: there only NumPy runs
    devices/checks            errors that depend on numbers of a compiled program
    devices/kernels           the kernel on NumPy arrays, compiled or of a few numbers
    graph/rule_primitive      the rule itself: shapes, forward mode, transposition, batching, lowering
    graph/tangent_primitive   the tangent map of a rule, linear, whose transpose is the rule's vjp
    graph/factor_primitive    the factors that compiled calls take
    graph/cotangents          the rule's vjp, between JAX's convention and ours
    graph/compiled_calls      rules that are calls of compiled code, and their pullbacks
    graph/programs            a derivative outside of programs as one program
    graph/partitioned         batches over several devices
    graph/members             NaN in refused batch members
    graph/evaluation          the kernel of a rule, and the factors that it takes, makes and passes on
    user/transforms           loops and branches, and derivatives of functions of users
    user/user_transforms      JAX's own transforms, for gradcheck
    patterns/propagation      the pattern of a Jacobian
    patterns/rules            maps of index sets, by primitive
    patterns/windows          maps of index sets for operations on images

A rule is staged whole and becomes its kernel when it is compiled; until then every transformation
sees the rule.
"""

from ldiv.frontends.jax import dense, user
from ldiv.frontends.jax.devices.callbacks import host_callback, on_host
from ldiv.frontends.jax.devices.checks import check_or_raise
from ldiv.frontends.jax.graph.compiled_calls import export_checks
from ldiv.frontends.jax.graph.rule_primitive import bind
from ldiv.frontends.jax.patterns.propagation import dependence
from ldiv.frontends.jax.sparse_matrices import sparse, sparse_parts
from ldiv.frontends.jax.user.transforms import each, either, loop
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
