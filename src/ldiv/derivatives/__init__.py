"""Derivatives of the user's own functions: products, Jacobians, Hessians, roots, errors of
gradients.
"""
