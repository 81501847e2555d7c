"""Arrays of all frameworks: dtypes, shapes, checks of what users pass, buffers, spaces of vectors."""
