"""Transforms, and derivatives of the user's own functions in PyTorch."""
