"""An empty module: `from ldiv.sparse import csr_array` raises an error that names `ldiv.csr_array`."""

from ldiv.linalg.names_at_the_top import names_at_the_top

__getattr__ = names_at_the_top(__name__)
