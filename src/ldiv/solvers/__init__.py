"""One engine per file; `ldiv.solver` says what each must define, and asks them."""
