"""Front ends, one array framework per file or package, named after it, and the `index_sets` that two
of them use. `ldiv.core.frameworks.frontend` declares what each must define.
"""

from typing import TYPE_CHECKING

from ldiv.core.frameworks import folders

if TYPE_CHECKING:
    from ldiv.core.frameworks.frontend import FrontEndFile
    from ldiv.frontends import autograd, jax, numpy, torch

    every: tuple[FrontEndFile, ...] = (autograd, jax, numpy, torch)

folders.register("frontend", __name__, shared=("index_sets",))
