"""All private parts of PyTorch that this front end uses, and their purposes.

    torch.func          which transforms are at work, and the plain tensors under their wrappers:
                        public it would be a query of the levels, and `unwrap`
    functionalize       a rule that calls a function of the user runs one level below; an
                        autograd.Function that can be functionalized would do
    dispatcher          a kernel that calls its operator one level below, for autograd and for vmap;
                        torch.library.register_autograd, once that knows forward mode
    is_grads_batched    the older vmap, for cotangents: goes with it when torch drops it
    forward mode        whether a level is open, and forward mode again inside of a jvp, where torch
                        switches it off for the levels outside as well; public it would be a query
                        of the level, and a jvp that leaves the other levels alone
    modes               whether dispatch and function modes look on, and which; torch.overrides
                        has this for function modes when it has it for all
    pretend device      a backend written in Python, for tests; public it would be as it is
    recorded programs   whether make_fx, torch.compile or torch.jit.trace records what is computed;
                        torch.compiler.is_compiling and is_exporting say it of two of them
    graph of autograd   a backward pass; torch.autograd.grad costs a third more for small graphs, and
                        loads sympy when it is first given cotangents. Whose nodes are in a graph, and
                        whether hooks are; public it would be a query of the graph
    saved tensor hooks  taken off while a derivative is made by torch.func, which refuses them; not
                        needed once it takes them
    pytrees             containers; torch.utils.pytree, once all versions have it
    tensors             whether one is a view, is zero without memory, what a sparse one stores;
                        Tensor.values and indices, once they take one that is not coalesced

What a version of PyTorch has no longer is found missing when it is used, not when the front end is
loaded: the error names it, and the mode that is lost. A test has a sentence for each. What a new
version has moved is mended here, and nowhere else.
"""

from __future__ import annotations

import pkgutil
from typing import Any

import torch

from ldiv.errors import expected_got

used: dict[str, str] = {}  # the mode that needs it, of each path


def private(path: str, mode: str, otherwise: Any = None) -> Any:
    """Return the object at a path in torch; if there is none, a class that raises when called."""
    used[path] = mode
    try:
        return pkgutil.resolve_name(path)
    except (AttributeError, ImportError, ValueError):
        return otherwise or moved(path, mode)


def moved(path: str, mode: str) -> Any:
    """Return a stand-in for a function or a base class, which raises when called."""

    class Moved:
        def __new__(cls, *_: Any, **__: Any) -> Any:
            advice = f"PyTorch has moved it: without it ldiv has no {mode}. Use an older PyTorch or a newer ldiv."
            raise NotImplementedError(
                expected_got("PyTorch", path, f"version {torch.__version__} without", advice)
            )

    return Moved


# -- torch.func -----------------------------------------------------------------------

_FUNC = "torch.func"
are_transforms_active = private("torch._C._are_functorch_transforms_active", _FUNC)
without_transforms = private("torch._C._DisableFuncTorch", _FUNC)
is_wrapped = private("torch._C._functorch.is_functorch_wrapped_tensor", _FUNC)
unwrapped = private("torch._C._functorch.get_unwrapped", _FUNC)
wrapped = private("torch._C._functorch._wrap_for_grad", _FUNC)
unwrapped_if_dead = private("torch._C._functorch.unwrap_if_dead", _FUNC)
batch_axis = private("torch._C._functorch.maybe_get_bdim", _FUNC)
level_of = private("torch._C._functorch.maybe_get_level", _FUNC)
levels = private("torch._C._functorch.get_interpreter_stack", _FUNC)
pop_level = private("torch._C._functorch.pop_dynamic_layer_stack", _FUNC)
push_level = private("torch._C._functorch.push_dynamic_layer_stack", _FUNC)
unwrapped_batch = private("torch._C._functorch._unwrap_batched", _FUNC)
add_mapped_axis = private("torch._C._functorch._add_batch_dim", _FUNC)
remove_mapped_axis = private("torch._C._functorch._remove_batch_dim", _FUNC)
enter_map = private("torch._C._functorch._vmap_increment_nesting", _FUNC)
leave_map = private("torch._C._functorch._vmap_decrement_nesting", _FUNC)
load_rules_of_maps = private("torch._functorch.vmap.lazy_load_decompositions", _FUNC)
innermost_level = private("torch._C._functorch.maybe_current_level", _FUNC)
allow_one_level = private("torch._C._functorch.set_single_level_autograd_function_allowed", _FUNC)
below_autograd = private("torch._C._AutoDispatchBelowAutograd", _FUNC)
excluded = private("torch._C._ExcludeDispatchKeyGuard", _FUNC)
MAPPED = private("torch._C.DispatchKeySet", _FUNC)(
    private("torch._C.DispatchKey.FuncTorchBatched", _FUNC)
)
GRAD = private("torch._C._functorch.TransformType.Grad", _FUNC)
JVP = private("torch._C._functorch.TransformType.Jvp", _FUNC)

# -- torch.func.functionalize -----------------------------------------------------------

_FUNCTIONALIZE = "torch.func.functionalize"
FUNCTIONALIZE = private("torch._C._functorch.TransformType.Functionalize", _FUNCTIONALIZE)
from_functional = private(
    "torch._functorch.eager_transforms._unwrap_all_tensors_from_functional", _FUNCTIONALIZE
)
to_functional = private(
    "torch._functorch.eager_transforms._wrap_all_tensors_to_functional", _FUNCTIONALIZE
)
current_level = private(
    "torch._functorch.pyfunctorch.retrieve_current_functorch_interpreter", _FUNCTIONALIZE
)

# -- torch.autograd.grad(is_grads_batched=True) -------------------------------------------

_LEGACY = "torch.autograd.grad(is_grads_batched=True)"
# without it there is no such batch, of which each call asks
is_legacy_batch = private(
    "torch._C._functorch.is_legacy_batchedtensor", _LEGACY, otherwise=lambda _: False
)
add_batch_axis = private("torch._add_batch_dim", _LEGACY)
remove_batch_axis = private("torch._remove_batch_dim", _LEGACY)
enter_legacy_batch = private("torch._C._vmapmode_increment_nesting", _LEGACY, otherwise=lambda: 1)
leave_legacy_batch = private("torch._C._vmapmode_decrement_nesting", _LEGACY, otherwise=lambda: 0)

# -- forward mode -----------------------------------------------------------------------

_FORWARD = "torch.autograd.forward_ad"
used["torch.autograd.forward_ad._current_level"] = _FORWARD
_forward: Any = torch.autograd.forward_ad
set_forward_mode = private("torch.autograd.forward_ad._set_fwd_grad_enabled", _FORWARD)
is_forward_mode_enabled = private("torch.autograd.forward_ad._is_fwd_grad_enabled", _FORWARD)


def _in_forward_mode() -> bool:
    """Whether a level of dual numbers is open."""
    found: bool = _forward._current_level >= 0
    return found


unpack_dual = private("torch._VF._unpack_dual", _FORWARD)


def has_tangent(x: Any) -> bool:
    """Whether x has a tangent at the level that is open."""
    return unpack_dual(x, level=_forward._current_level)[1] is not None


in_forward_mode: Any = (
    _in_forward_mode
    if hasattr(_forward, "_current_level")
    else moved("torch.autograd.forward_ad._current_level", _FORWARD)
)

# -- modes --------------------------------------------------------------------------------

_MODES = "look at modes (a default device, TorchDispatchMode)"
count_dispatch_modes = private("torch._C._len_torch_dispatch_stack", _MODES)
count_function_modes = private("torch._C._len_torch_function_stack", _MODES)
current_dispatch_mode = private("torch.utils._python_dispatch._get_current_dispatch_mode", _MODES)
without_function_modes = private("torch._C.DisableTorchFunction", _MODES)
_PATTERNS = "pattern of a Jacobian of tensors (found by a TorchDispatchMode)"
DispatchMode = private("torch.utils._python_dispatch.TorchDispatchMode", _PATTERNS)
without_dispatch_modes = private("torch.utils._python_dispatch._disable_current_modes", _PATTERNS)


class LightDispatchMode(DispatchMode):  # type: ignore[misc, valid-type]
    """A dispatch mode that does not load Dynamo, which other modes do to keep out of its graphs."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


set_up_device = private(
    "torch.utils.backend_registration._setup_privateuseone_for_python_backend",
    "pretend device (for tests)",
)

# -- recorded programs ----------------------------------------------------------------------

_RECORDED = "recorded programs (torch.export, torch.compile, torch.jit.trace)"
dispatch_mode = private("torch._C._get_dispatch_mode", _RECORDED)
PROXY = private("torch._C._TorchDispatchModeKey.PROXY", _RECORDED)
FAKE = private("torch._C._TorchDispatchModeKey.FAKE", _RECORDED)
is_included = private("torch._C._dispatch_tls_is_dispatch_key_included", _RECORDED)
PRE_DISPATCH = private("torch._C.DispatchKey.PreDispatch", _RECORDED)  # make_fx(pre_dispatch=True)
tracing_state = private("torch._C._get_tracing_state", _RECORDED)
ProxyMode = private("torch.fx.experimental.proxy_tensor.ProxyTorchDispatchMode", _RECORDED)
proxy_call = private("torch.fx.experimental.proxy_tensor.proxy_call", _RECORDED)
FakeTensorMode = private("torch._subclasses.fake_tensor.FakeTensorMode", _RECORDED)
# Dynamo reads this mark of a function: what it returns is a constant of the program that it makes.
# torch.compiler.assume_constant_result would load Dynamo.
MARKED_CONSTANT = "_dynamo_marked_constant"


# Unlike torch.compiler.disable this loads Dynamo only when the function is called.
def outside_of_graphs(f: Any) -> Any:
    """f, which torch.compile calls and does not trace."""
    disable = getattr(torch, "_disable_dynamo", None)
    return torch.compiler.disable(f) if disable is None else disable(f)


def is_one_graph() -> bool:
    """Whether torch.compile must not leave anything out (fullgraph=True, torch.export)."""
    # loaded: it is at work
    from torch._dynamo.symbolic_convert import InstructionTranslator

    tx = InstructionTranslator.current_tx()
    return bool(tx.one_graph or getattr(tx, "error_on_graph_break", False))


# -- the graph of autograd --------------------------------------------------------------------

_GRAPH = "derivatives of your functions"
run_backward = private("torch.autograd.graph._engine_run_backward", _GRAPH)
nodes = vars(private("torch._C._functions", _GRAPH))  # PyTorch's own kinds
HookHandle = private("torch.utils.hooks.RemovableHandle", _GRAPH)  # `next_id` counts them

# -- saved tensor hooks -----------------------------------------------------------------------

_HOOKS = "derivatives of your functions inside of saved tensor hooks"
top_hooks = private("torch._C._autograd._top_saved_tensors_default_hooks", _HOOKS)
pop_hooks = private("torch._C._autograd._pop_saved_tensors_default_hooks", _HOOKS)
push_hooks = private("torch._C._autograd._push_saved_tensors_default_hooks", _HOOKS)

# -- pytrees --------------------------------------------------------------------------------

_TREES = "containers of tensors"
tree_map = private("torch.utils._pytree.tree_map", _TREES)
tree_leaves = private("torch.utils._pytree.tree_leaves", _TREES)
tree_map_only = private("torch.utils._pytree.tree_map_only", _TREES)
register_tree = private("torch.utils._pytree.register_pytree_node", _TREES)

# -- tensors --------------------------------------------------------------------------------

_TENSORS = "tensors"
is_view = private("torch.Tensor._is_view", _TENSORS)
is_zero = private("torch.Tensor._is_zerotensor", _TENSORS)
_SPARSE = "sparse tensors (torch.sparse_coo_tensor)"
stored_values = private("torch.Tensor._values", _SPARSE)
stored_indices = private("torch.Tensor._indices", _SPARSE)
