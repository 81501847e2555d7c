"""One engine per file; `ldiv.engines.solver` says what each must define, and asks them."""

from ldiv.core import folders

folders.register(
    "engine",
    __name__,
    ITERATES=False,
    BY_CHOLESKY=False,  # is it worth trying whether a Hermitian matrix is definite?
    factor_carefully=None,  # `factor`, with its strongest settings
)
