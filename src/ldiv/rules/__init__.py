"""One operation per file; each opens with its equation, tangent, cotangent and cost."""
