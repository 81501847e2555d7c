"""One structure per file; each also says, in `cases`, what the conformance suite runs it on."""

from ldiv.structures.dense import Dense
from ldiv.structures.diagonal import Diagonal
from ldiv.structures.sparse import Sparse
from ldiv.structures.sparse_triangular import SparseTriangular
from ldiv.structures.symmetric import Symmetric
from ldiv.structures.triangular import Triangular

__all__ = ["Dense", "Diagonal", "Sparse", "SparseTriangular", "Symmetric", "Triangular"]
