"""Callbacks from programs of JAX, what they check, and kernels that wait for nothing."""
