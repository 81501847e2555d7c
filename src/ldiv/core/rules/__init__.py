"""What a structure is, and what a rule is: a kernel, its tangent and its cotangent."""
