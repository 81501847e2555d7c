"""One engine for eigenpairs per file; found by folder scan."""
