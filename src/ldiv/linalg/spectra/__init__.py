"""Eigenvalues, singular values, and what is computed from them."""
