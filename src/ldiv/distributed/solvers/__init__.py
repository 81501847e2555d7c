"""The solvers of matrices over several processes, found by folder scan as all engines are."""

from ldiv.core.frameworks import folders
from ldiv.distributed.processes import SOLVERS

folders.register(SOLVERS, __name__)
