"""One array framework per file or package, named after it; `ldiv.core.frameworks.frontend` says what each
must define; and the index sets of `index_sets`, whose tables two of them read.
"""

from typing import TYPE_CHECKING

from ldiv.core.frameworks import folders

if TYPE_CHECKING:
    from ldiv.core.frameworks.frontend import FrontEndFile
    from ldiv.frontends import autograd, jax, numpy, torch

    every: tuple[FrontEndFile, ...] = (autograd, jax, numpy, torch)

folders.register("frontend", __name__, shared=("index_sets",))
