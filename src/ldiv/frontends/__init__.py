"""One array framework per file or package, named after it; `ldiv.core.dispatch` says what each
must define.
"""

from ldiv.core import folders

folders.register("frontend", __name__)
