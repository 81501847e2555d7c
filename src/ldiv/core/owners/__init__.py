"""Owners of factors, the store of factors, the list of all caches, and locks in forked processes."""
