"""What users hold: matrices, sparse arrays, operators, and assumptions about them."""
