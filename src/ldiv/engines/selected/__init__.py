"""Entries of an inverse on the pattern of a sparse matrix, from its factors, without the inverse.

They are the gradient of a log-determinant. One idea per file:

    fronts        all that a factorization needs to know before it sees numbers
    cholesky      A = L L^H, solves, the selected inverse and its tangent, compiled
    block_lu      A = L D U by blocks, for indefinite matrices and those without symmetry, compiled
    compiled      what both compiled factors share
    triangles     L itself: tangents and cotangents of A = L L^H on its pattern
    factors, general      the factors behind ldiv's checks
"""
