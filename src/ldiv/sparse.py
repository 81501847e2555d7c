"""Where nothing is: `from ldiv.sparse import csr_array` is answered in words."""

from ldiv.core.elsewhere import names_at_the_top

__getattr__ = names_at_the_top(__name__)
