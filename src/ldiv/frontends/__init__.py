"""One automatic-differentiation framework per file, named after it; `ldiv.core.dispatch` says
what each must define.
"""

from ldiv.core import folders

folders.register("frontend", __name__)
