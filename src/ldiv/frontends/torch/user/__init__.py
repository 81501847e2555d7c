"""Transforms, and derivatives of the user's own functions in PyTorch."""

from ldiv.frontends.torch.user.forward_mode import jvp
from ldiv.frontends.torch.user.repeated import looking_once
from ldiv.frontends.torch.user.reverse_mode import vjp
from ldiv.frontends.torch.user.several import prefers_rows, pulled, pushed, rows
from ldiv.frontends.torch.user.transforms import call, few, members, vmap
from ldiv.frontends.torch.user.user_transforms import OwnTransforms
