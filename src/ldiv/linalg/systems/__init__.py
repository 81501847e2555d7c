"""A x = b: solves, held factors, least squares, and what explains them."""
