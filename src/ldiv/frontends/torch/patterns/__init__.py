"""Which outputs of the user's function depend on which inputs, from PyTorch's operators."""
