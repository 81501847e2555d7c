"""Waits of PyTorch for a device, and kernels that run without reading from it."""
