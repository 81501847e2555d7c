"""Rules as primitives of JAX, and compiled calls in its programs."""
