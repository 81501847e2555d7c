"""One Krylov method per file, found by folder scan; `ldiv.engines.krylov` runs them."""

from ldiv.core import folders

folders.register("engine", __name__)
