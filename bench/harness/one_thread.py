"""Import this first: one thread for every BLAS, said before NumPy is loaded."""

import os

for pool in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "VECLIB_MAXIMUM"):
    os.environ[f"{pool}_NUM_THREADS"] = "1"
