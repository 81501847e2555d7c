"""Krylov methods, one per file, found by folder scan; `ldiv.engines.iterative.krylov` runs them."""

from ldiv.core.frameworks import folders

folders.register(
    "engine",
    __name__,
    RANK=None,  # files without a rank are no engines
    ITERATES=True,
    IN_SINGLE=False,  # it has no factors
    HERMITIAN_M=False,  # must M be Hermitian?
    BROKEN=None,  # the error if the norm of a residual is NaN
    ITERATE=None,  # the function of SciPy whose steps are taken; else `start` and `step` are
    arguments=lambda near, options: {"M": near},  # its names for M, near A^-1, and others
    supports=lambda structure, dtype, device, assume_a: None,  # any square matrix
    cycle=lambda restart, n: 1,  # the number of products per step
    solve_whole=None,  # it solves what a plan gives it, not whole calls
    explain=None,
    preconditioner=None,
)
