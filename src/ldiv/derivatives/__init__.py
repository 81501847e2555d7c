"""Derivatives of the user's functions: products, Jacobians, Hessians, roots, gradient errors."""
