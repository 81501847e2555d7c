"""Numbers of an inverse: determinants, entries, traces, Gaussian terms."""
