"""Calls of engines into other libraries, and the number of threads that these may use."""
