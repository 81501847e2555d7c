"""Detection of the pattern of a Jacobian from the jaxpr of the user's function."""
