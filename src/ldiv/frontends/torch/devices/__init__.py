"""When PyTorch waits for a device, and how kernels run without reading from it."""
