"""Objects that users hold: matrices, sparse arrays, operators, and assumptions about them."""

# they say how matrices of other libraries are converted, and how those of ldiv are written out
from ldiv.matrices import construct, linear_operator, written_out  # noqa: F401
