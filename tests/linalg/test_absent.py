"""Every public name of SciPy's, NumPy's and PyTorch's linear algebra is here, or ldiv says what to write."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg

import ldiv
from ldiv.linalg.absent import SENTENCES


def libraries() -> list[ModuleType]:
    found = [scipy.linalg, scipy.sparse, scipy.sparse.linalg, np.linalg]
    try:
        import torch
    except ImportError:
        return found
    return [*found, torch.linalg]


def public(library: ModuleType) -> set[str]:
    names = getattr(library, "__all__", None) or vars(library)
    return {
        name
        for name in names
        if not name.startswith("_") and not isinstance(getattr(library, name), ModuleType)
    }


def test_every_name_answers() -> None:
    for library in libraries():
        silent = public(library) - set(ldiv.__all__) - set(SENTENCES)
        # what a newer version of a library brings is answered by the next version of ldiv
        assert not silent or library.__name__.startswith("torch"), (library.__name__, silent)


def test_no_name_of_ours_is_called_absent() -> None:
    assert not set(SENTENCES) & set(dir(ldiv))


@pytest.mark.parametrize(
    ("name", "words"),
    [("hilbert", "scipy.linalg"), ("trace", "array library"), ("quadeig", "twice the size")],
)
def test_the_error_says_what_to_write(name: str, words: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}'.*{words}"):
        getattr(ldiv, name)
    assert not hasattr(ldiv, name)


def test_other_names_are_plainly_missing() -> None:
    with pytest.raises(AttributeError, match=r"^module 'ldiv' has no attribute 'xyz'$"):
        ldiv.xyz  # noqa: B018


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("spsolv", "spsolve"),
        ("Solve", "solve"),
        ("jacobain", "jacobian"),
        ("csr_aray", "csr_array"),
    ],
)
def test_a_misspelled_name_is_told(name: str, meant: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}'. Do you mean '{meant}'"):
        getattr(ldiv, name)
    assert not hasattr(ldiv, "__wrapped__")


@pytest.mark.parametrize(
    ("word", "meant"),
    [("spd", "pos"), ("symetric", "symmetric"), ("Pos", "pos"), ("tril", "lower triangular")],
)
def test_a_misspelled_assumption_is_told(word: str, meant: str) -> None:
    with pytest.raises(ValueError, match=f"got '{word}'. Do you mean '{meant}'"):
        ldiv.solve(np.eye(2), np.ones(2), assume_a=word)


@pytest.mark.parametrize("make", [ldiv.csr_array, ldiv.csc_array])
def test_swapped_parts_of_a_compressed_matrix_are_told(make: Any) -> None:
    data, indices, indptr = np.ones(3), np.array([0, 1, 1]), np.array([0, 1, 3])
    with pytest.raises(ValueError, match="indices and indptr are swapped"):
        make((data, indptr, indices), shape=(2, 2))
