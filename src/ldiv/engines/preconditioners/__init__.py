"""Preconditioners, one per file: `build(structure, p, **options)` is (M, its parameters) near S^-1."""

from ldiv.core.frameworks import folders

folders.register("preconditioner", __name__, shared=("approximate_inverse",))
