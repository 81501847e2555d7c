"""One automatic-differentiation framework per file, named after it; `ldiv.core.rule` says what each must define."""
