"""The contract of a front end, its defaults, and the dispatch of arrays to front ends."""
