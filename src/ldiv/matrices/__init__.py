"""Objects that users hold: matrices, sparse arrays, operators, and assumptions about them."""
