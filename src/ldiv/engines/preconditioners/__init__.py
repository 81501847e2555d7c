"""One preconditioner per file, found by its name: `build(structure, p, **options)` is (structure,
parameters) of a matrix near S(p)^-1.
"""

from ldiv.core import folders

folders.register("preconditioner", __name__)
