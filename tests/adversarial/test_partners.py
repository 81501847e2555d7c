"""A slice of what a matrix of SciPy can do to what was made of it; `make fuzz KIND=partners` goes
on.
"""

from __future__ import annotations

import numpy as np
import pytest

from adversarial import partners
from adversarial.case import Wrong
from ldiv.matrices import construct

more = pytest.mark.exhaustive
IN_FULL = ("csr_array",)  # the others are more of the same
# what SciPy does to a matrix in place, by hand and on the way to something else
IN_PLACE = (
    "K.sort_indices",
    "K.sum_duplicates",
    "K.eliminate_zeros",
    "scipy.sparse.linalg.spsolve",
    "K.max",
    "K.__abs__",
    "K.setdiag",
    "K.__imul__",
    "K.resize",
    "K.data.fill",
    "K.indices.sort",
)


@pytest.mark.parametrize(
    "kind", [k if k in IN_FULL else pytest.param(k, marks=more) for k in partners.KINDS]
)
def test_every_act(kind: str) -> None:
    """Each on a matrix of its own."""
    K = partners.partner(kind, np.random.default_rng(0))
    for name in partners.acts(K):
        assert partners.look(kind, "asarray", 0, (name,)) == "right"


@pytest.mark.parametrize("kind", ["csr_array", "csc_matrix", "coo_array"])
@pytest.mark.parametrize("made", [*partners.MADE, *partners.OF_PARTS])
def test_everything_made(made: str, kind: str) -> None:
    assert partners.look(kind, made, 1, IN_PLACE) == "right"


def test_what_is_wrong_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(construct, "own", lambda x: x)
    for made in ("asarray", "its arrays", "kron", "an update"):
        for name in IN_PLACE[:5]:
            with pytest.raises(Wrong, match="what was made has changed"):
                partners.look("csr_array", made, 0, (name,))
