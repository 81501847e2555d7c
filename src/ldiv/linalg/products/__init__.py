"""Products: BLAS's, and the exponential of a matrix times a block."""
