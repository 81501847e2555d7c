"""Functions of a matrix times a vector, from products alone."""
