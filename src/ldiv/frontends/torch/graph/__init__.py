"""Rules as nodes of PyTorch's graph, in each of its modes, and in recorded programs."""
