"""PyTorch: one operator and one autograd.Function for all rules, in eager mode and under every transform.

Imported here is what `ldiv.core.frontend` asks of a front end, and no more. One idea per file:

    private           what is not public of PyTorch, and may move
    recorders         what records a program instead of running it
    recorded          rules in such programs, by their keys
    operator          all rules, as one operator
    node              a rule in the graph of a level
    kernels           the kernel of a rule, on plain tensors
    values            whose a tensor is, where its numbers are, and NumPy's view of them
    array_namespace   numbers of the host on an accelerator, without a wait
    sparse_products   products with a sparse matrix on one
    replayed          steps on one, recorded once
    layouts           tensors that are sparse, nested, or have no values
    storage           where a tensor is in memory, who counts the writes to it, copies of it
    evaluation        the vjp and the jvp of a rule, on tensors
    waiting           what is asked of a device: all looks of a kernel at once
    joint             those of several rules
    unread            and nothing: NaN in the members of a batch that are refused
    legacy_batching   the vmap that torch.autograd.grad uses, is_grads_batched=True
    transforms        functions of users, called, and in batches
    agreement         whether a tangent is the derivative of one, by reverse products
    cut_graphs        an error in place of a derivative that would not be one
    reverse_mode      its cotangents
    forward_mode      its tangents
    propagation       where a Jacobian may not be zero
    propagation_calls an operation on tensors with index sets
    propagation_rules what each operation does with them
    propagation_windows   and those on images
    dense             dense kernels
    user_transforms   PyTorch's own, for whoever checks derivatives
"""

from ldiv.frontends.torch.array_namespace import namespace, places
from ldiv.frontends.torch.dense import (
    cholesky,
    cholesky_inverse,
    eigh,
    lu_factor,
    lu_pivoted,
    lu_solve,
    product,
    row_order,
    scatter,
    sign_of_rows,
    solve_triangular,
    svd,
    svdvals,
)
from ldiv.frontends.torch.forward_mode import jvp, looking_once
from ldiv.frontends.torch.joint import jointly
from ldiv.frontends.torch.layouts import refusal, sparse, sparse_parts, stored_only
from ldiv.frontends.torch.node import differentiates
from ldiv.frontends.torch.operator import bind
from ldiv.frontends.torch.propagation import dependence
from ldiv.frontends.torch.recorders import check_or_raise, traced
from ldiv.frontends.torch.replayed import repeating
from ldiv.frontends.torch.reverse_mode import prefers_rows, pulled, vjp
from ldiv.frontends.torch.sparse_products import compressed_rows
from ldiv.frontends.torch.storage import clone, conj, graphless, memory, to, unwritable, version
from ldiv.frontends.torch.transforms import call, vmap
from ldiv.frontends.torch.user_transforms import OwnTransforms
from ldiv.frontends.torch.values import (
    asnumpy,
    constant,
    copied,
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
from ldiv.frontends.torch.waiting import in_one_wait
