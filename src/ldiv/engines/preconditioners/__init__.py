"""One preconditioner per file, found by its name: `near(structure, p, **options)` is (structure, parameters) of a matrix near S(p)^-1."""
