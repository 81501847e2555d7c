"""One engine per file; `ldiv.engines.solver` says what each must define, and asks them."""
