"""In-place operations with shadow buffers, one per file: it runs, and records its reverse."""
