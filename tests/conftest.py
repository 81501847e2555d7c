"""Where the real matrices are, a clean memory of factorizations for every test, and a compiler that does not dwell."""

import os
from pathlib import Path

import pytest
import scipy.io
import scipy.sparse

import ldiv

# Compiling is what takes the time in the tests of JAX, and most of that is optimizing; of the environment, so that every process hears of it.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
REAL = Path(os.environ.get("LDIV_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))


@pytest.fixture(autouse=True)
def _fresh_memory():
    ldiv.clear_cache()


@pytest.fixture
def real_matrix():
    """Loads a SuiteSparse matrix by name as a SciPy CSC array."""

    def load(name):
        path = REAL / f"{name}.mtx"
        if not path.exists():
            pytest.skip(f"the matrix {name} is not in {REAL}: set LDIV_TEST_DATA to a folder with SuiteSparse .mtx files")
        return scipy.sparse.csc_array(scipy.io.mmread(path))

    return load
