"""Transforms of the user's own functions in JAX."""

from ldiv.frontends.jax.user.transforms import compiled, jvp, vjp, vmap
from ldiv.frontends.jax.user.user_transforms import OwnTransforms
