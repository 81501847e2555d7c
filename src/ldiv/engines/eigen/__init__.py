"""Eigensolvers, one per file, found by folder scan, and their shared code."""

from ldiv.core.frameworks import folders

folders.register(
    "eigensolver",
    __name__,
    RANK=None,  # files without a rank are no eigensolvers
    reduced=None,  # the deflated systems of the derivative, where it solves them by itself
)
