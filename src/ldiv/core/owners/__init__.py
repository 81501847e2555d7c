"""Who keeps what: factors, tables and the list of all caches, and what a forked process forgets."""
