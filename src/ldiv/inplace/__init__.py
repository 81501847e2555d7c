"""In-place operations with shadow buffers, one per file: each runs and records its reverse."""
