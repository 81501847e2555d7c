"""One engine for eigenpairs per file, beside what they share: the shift and its inverse,
deflated systems. Found by folder scan.
"""

from ldiv.core import folders

folders.register("eigensolver", __name__, RANK=None)  # what they share has none, and is not asked
