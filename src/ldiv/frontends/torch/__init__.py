"""PyTorch: one operator and one autograd.Function for all rules, in eager mode and under every transform.

This file imports the names that `ldiv.core.frameworks.frontend` requires, and no more. One idea per file:

    private                   the private parts of PyTorch
    recorders                 recorders of programs, which run later
    values                    queries of tensors: type, device, NumPy's view of their values
    array_namespace           numbers of the host on an accelerator, without a wait
    sparse_products           products with a sparse matrix on an accelerator
    layouts                   tensors that are sparse, nested, or have no values
    storage                   the memory of a tensor, its version counter, copies
    dense                     dense kernels
    devices/waiting           reads from a device: all checks of a kernel at once
    devices/replayed          steps on a device, recorded once
    devices/nan_members       NaN in refused batch members, without a wait
    devices/pretend_device    a device without memory of its own, for tests
    graph/node                a rule in the graph of a level
    graph/operator            all rules, as one operator
    graph/recorded            rules in recorded programs, by their keys
    graph/kernels             the kernel of a rule, on plain tensors
    graph/evaluation          the vjp and the jvp of a rule, on tensors
    graph/one_level           who sees the tensors of a derivative
    graph/recomputed          one node for a derivative, which is computed anew if it is differentiated
    graph/composite           several rules as one node, whose checks are read together
    graph/legacy_batching     the vmap that torch.autograd.grad uses, is_grads_batched=True
    graph/functionalized      rules that call a user's function, under torch.func.functionalize
    graph/closures            the tensors that a user's function closes over
    user/transforms           functions of users, called, and in batches
    user/agreement            whether a tangent is the derivative of a function, by reverse products
    user/cut_graphs           an error in place of a derivative that would be wrong
    user/reverse_mode         cotangents of a user's function
    user/forward_mode         tangents of a user's function
    user/repeated             checks that repeated evaluations share
    user/user_transforms      PyTorch's own transforms, for gradcheck
    patterns/propagation      the pattern of a Jacobian
    patterns/calls            an operation on tensors with index sets
    patterns/rules            maps of index sets, by operation
    patterns/windows          maps of index sets for operations on images
"""

from ldiv.frontends.torch import dense, user
from ldiv.frontends.torch.array_namespace import namespace, places
from ldiv.frontends.torch.devices.replayed import repeating
from ldiv.frontends.torch.devices.waiting import in_one_wait
from ldiv.frontends.torch.graph.composite import as_one_node
from ldiv.frontends.torch.graph.node import differentiates
from ldiv.frontends.torch.graph.operator import bind
from ldiv.frontends.torch.layouts import refusal, sparse, sparse_parts, stored_only
from ldiv.frontends.torch.patterns.propagation import dependence
from ldiv.frontends.torch.recorders import check_or_raise, traced
from ldiv.frontends.torch.sparse_products import compressed_rows
from ldiv.frontends.torch.storage import clone, conj, graphless, memory, to, unwritable, version
from ldiv.frontends.torch.values import (
    asnumpy,
    constant,
    copied,
    every_member,
    host,
    host_callback,
    host_values,
    loop,
    numbers,
    on_host,
    own,
    owns,
    promoted,
    signature,
    standard_normal,
)
