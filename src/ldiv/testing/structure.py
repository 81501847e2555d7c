"""Laws of a structure S with parameters p.

matmul(p, x) = todense(p) x, for S and its views;      push(p, dp, x) = dS(p)[dp] x;
<outer(p, u, v), dp> = <u v^H, dS(p)[dp]>;              S.T.T = S;  equal content is equal and hashes equal;
pattern.csc(slot_values(p)) = S(p) where there is a pattern;    U V = S(p) for the halves where the rank is low;
A + W = S(p) for an update;  prod d_i = det S(p) for the diagonal of a determinant
"""

from __future__ import annotations

import copy

import numpy as np

from ldiv.checker.inner import inner
from ldiv.core.frameworks.trees import Tree, leaves, rebuild
from ldiv.core.rules.structure import VIEWS, Structure, outer, view_dense
from ldiv.testing.cases import Draw
from ldiv.testing.distance import assert_close, difference


def structure_laws(structure: Structure, p: Tree) -> None:
    """Check every law on one structure."""
    draw = Draw(leaves(p)[0].dtype.name, 2)
    for op in VIEWS:
        view = structure.view(op)
        dense = view_dense(structure.todense(p), op)
        assert view.shape == dense.shape[-2:], f"shape of the view {op}"
        _product(view, p, dense, draw)
        _tangent_and_cotangent(view, p, draw)
        _declared(view, p, dense, draw)
    _identities(structure)


def _product(view: Structure, p: Tree, dense: np.ndarray, draw: Draw) -> None:
    for x in (draw(view.shape[1], 3), draw(2, view.shape[1], 1)):
        assert_close("matmul(p, x) = S(p) x", view.matmul(p, x), dense @ x)
    assert_close("todense of a view", view.todense(p), dense)


def _tangent_and_cotangent(view: Structure, p: Tree, draw: Draw) -> None:
    dp = draw.like(p)
    batch = np.shape(view.todense(p))[:-2]
    u, v = draw(*batch, view.shape[0], 2), draw(*batch, view.shape[1], 2)
    moved = view.push(p, dp, v)
    assert_close(
        "push is the derivative of matmul",
        moved,
        difference(lambda q: view.todense(q) @ v, p, dp),
        1e-9,
    )
    every = rebuild(p, [True for _ in leaves(p)])
    assert_close(
        "<outer(u, v), dp> = <u v^H, dS dp>",
        inner(outer(view, p, u, v, every), dp),
        inner(u, moved),
    )


def _between(view: Structure, p: Tree, dense: np.ndarray, draw: Draw) -> None:
    """Check the cotangent that is made of small products."""
    (v, pv), (w, pw) = view.halves(p)[1], view.H.halves(p)[1]
    left = np.conj(np.swapaxes(w.todense(pw), -1, -2))
    assert_close("W^H between(V) = S(p)", left @ view.between(p, v.todense(pv)), dense)
    x, y = draw(*dense.shape[:-2], view.shape[0], 2), draw(*dense.shape[:-2], view.shape[1], 2)
    small, every = (w.matmul(pw, x), v.matmul(pv, y)), rebuild(p, [True for _ in leaves(p)])
    found, plain = view.outer_between(p, x, y, small, every), outer(view, p, x, y, every)
    for one, two in zip(leaves(found), leaves(plain), strict=True):
        assert_close("outer_between(u, v) = outer(u, v)", one, two)


def _declared(view: Structure, p: Tree, dense: np.ndarray, draw: Draw) -> None:
    """Check the forms that a structure offers to engines."""
    if (pattern := view.pattern) is not None:
        slots = view.slot_values(p)
        for i in np.ndindex(slots.shape[:-1]):
            assert_close(
                "pattern.csc(slot_values(p)) = S(p)", pattern.csc(slots[i]).toarray(), dense[i]
            )
    if view.rank < min(view.shape):
        (u, pu), (v, pv) = view.halves(p)
        assert u.shape[1] == v.shape[0] == view.rank, (
            "the halves have as many columns and rows as the rank"
        )
        assert_close("U V = S(p)", u.todense(pu) @ v.todense(pv), dense)
        _between(view, p, dense, draw)
    if (split := view.update(p)) is not None:
        (a, pa), (w, pw) = split
        assert w.rank < min(view.shape), "an update has a low rank"
        assert_close("A + W = S(p)", a.todense(pa) + w.todense(pw), dense)
    if (d := view.determinant_diagonal(p)) is not None:
        assert_close("prod d_i = det S(p)", np.prod(d, axis=-1), np.linalg.det(dense))


def _identities(structure: Structure) -> None:
    assert structure.T.T == structure, "S.T.T = S"
    assert structure.H.T == structure.C, "S.H.T = S.C"
    assert structure.T == structure.T, "views are equal"
    assert hash(structure.T) == hash(structure.T), "views hash equal"
    twin = copy.deepcopy(structure)
    assert twin == structure, "equal content is equal"
    assert hash(twin) == hash(structure), "equal content hashes equal"
    base, op = structure.H.unview()
    assert base.view(op) == structure.H, "unview(S) = (base, op) with S = op(base)"
