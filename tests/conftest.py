"""Where the real matrices are; for every test a clean memory of factorizations and the same
random numbers; a compiler that does not dwell.
"""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse

import ldiv
from ldiv.engines import factor_cache

# Compiling is what takes the time in the tests of JAX, and most of that is optimizing; of the
# environment, so that every process hears of it.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
REAL = Path(os.environ.get("LDIV_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))
AFTER_IMPORT = {}  # the state of the generator of each file


@pytest.fixture(autouse=True)
def _fresh_memory():
    ldiv.clear_cache()
    # what waits for the garbage collector is not found by the next test
    factor_cache._living.clear()


@pytest.fixture(autouse=True)
def _same_numbers(request):
    """What a test draws depends neither on the tests before it nor on the process that it runs
    in.
    """
    module = getattr(request.node, "module", None)
    for generator in (getattr(module, name, None) for name in ("RNG", "rng")):
        if isinstance(generator, np.random.Generator):
            generator.bit_generator.state = AFTER_IMPORT.setdefault(
                module.__name__, generator.bit_generator.state
            )
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


@pytest.fixture
def real_matrix():
    """Loads a SuiteSparse matrix by name as a SciPy CSC array."""

    def load(name):
        path = REAL / f"{name}.mtx"
        if not path.exists():
            pytest.skip(
                f"the matrix {name} is not in {REAL}: set LDIV_TEST_DATA to a folder with SuiteSparse .mtx files"
            )
        return scipy.sparse.csc_array(scipy.io.mmread(path))

    return load
