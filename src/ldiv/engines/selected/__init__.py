"""Entries of an inverse on the pattern of a sparse matrix, from its factors, without the inverse.

They are the gradient of a log-determinant. One idea per file:

    tree          the elimination tree and the sizes of the columns of the factor
    supernodes    columns that are eliminated together, and the rows of their fronts
    fronts        all that a factorization needs to know before it sees numbers; compiled, or by the
                  two above
    cholesky      A = L L^H, solves, the selected inverse and its tangent, compiled
    block_lu      A = L D U by blocks, for indefinite matrices and those without symmetry, compiled
    blocks        the same, and positive definite matrices, by NumPy
    compiled      what both compiled factors share
    triangles     L itself: tangents and cotangents of A = L L^H on its pattern
    factors, general      the factors behind ldiv's checks
"""
