"""The classes of structures, and of rules: a kernel, its tangent and its cotangent."""
