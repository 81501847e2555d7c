"""One preconditioner per file: `build(structure, p, **options)`, (M, its parameters) near S^-1."""

from ldiv.core.frameworks import folders

folders.register("preconditioner", __name__, shared=("approximate_inverse",))
