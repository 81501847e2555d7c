"""One automatic-differentiation framework per file, named after it; `ldiv.rule` says what each must define."""
