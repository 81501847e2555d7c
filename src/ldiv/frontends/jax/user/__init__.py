"""Transforms of the user's own functions in JAX."""
