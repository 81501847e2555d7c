"""The problems of the benchmarks."""
