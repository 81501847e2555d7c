"""Which outputs of the user's function depend on which inputs, from its jaxpr."""
