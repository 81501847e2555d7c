"""Detection of the pattern of a Jacobian from PyTorch's operators."""
