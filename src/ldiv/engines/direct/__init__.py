"""Direct engines, one per file; `ldiv.engines.registry` lists the names that each must define."""

from ldiv.core.frameworks import folders

folders.register(
    "engine",
    __name__,
    shared=("schur_pair",),
    ITERATES=False,
    BY_CHOLESKY=False,  # is it worth trying Cholesky on a Hermitian matrix?
    IN_SINGLE=False,  # does it factor matrices of double precision in single, to be refined?
    analyze=None,  # no symbolic work
    factor_carefully=None,  # `factor`, with its strongest settings
    solve_whole=None,  # it solves what a plan gives it, not whole calls
    explain=None,
    preconditioner=None,
)
