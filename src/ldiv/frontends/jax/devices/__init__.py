"""Callbacks from programs of JAX, checks in programs, and kernels that need no wait."""
