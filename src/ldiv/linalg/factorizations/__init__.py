"""A = P L U, L L^H, L D L^H, Q R under SciPy's names."""
