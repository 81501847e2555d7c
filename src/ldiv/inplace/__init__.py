"""In-place operations with shadow buffers: one operation per file, each runs forward and leaves
the step that reverses it.
"""
