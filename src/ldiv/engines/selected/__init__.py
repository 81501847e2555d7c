"""Entries of an inverse on the pattern of a sparse matrix, from its factors, without the inverse.

They are the gradient of a log-determinant. One idea per file:

    fronts        all that a factorization needs to know before it sees numbers
    checked_fronts    fronts with the analysis for factors that pass every check in compiled code
    compiled      A = L L^H, L D L^T, L D U by blocks, compiled: solves, entries of the inverse, tangents
    triangles     L itself: tangents and cotangents of A = L L^H on its pattern
    factors, general      the factors behind ldiv's checks
"""
