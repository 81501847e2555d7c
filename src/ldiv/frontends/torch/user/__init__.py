"""Transforms, and derivatives of the user's own functions in PyTorch."""

from ldiv.frontends.torch.user.forward_mode import jvp, looking_once
from ldiv.frontends.torch.user.reverse_mode import prefers_rows, pulled, vjp
from ldiv.frontends.torch.user.transforms import call, vmap
from ldiv.frontends.torch.user.user_transforms import OwnTransforms
