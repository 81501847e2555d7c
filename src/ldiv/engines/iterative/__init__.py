"""One Krylov method per file, found by folder scan; `ldiv.engines.krylov` runs them."""
