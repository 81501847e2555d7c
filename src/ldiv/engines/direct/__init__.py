"""One engine per file; `ldiv.engines.solver` says what each must define, and asks them."""

from ldiv.core import folders

folders.register("engine", __name__)
