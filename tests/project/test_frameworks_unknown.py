"""Below the public functions nobody knows a framework, not even by an attribute of its arrays: what
only the framework can say is asked of its front end, through `ldiv.core.frameworks.dispatch`.

An attribute that is felt for is one that another framework, or the next version of the same one,
has in another meaning.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import ldiv

SRC = Path(ldiv.__file__).parent
ROOMS = [
    "core",
    "structures",
    "engines",
    "rules",
    "matrices",
    "linalg",
    "derivatives",
    "inplace",
    "distributed",
]
FILES = [path for room in ROOMS for path in sorted((SRC / room).rglob("*.py"))]

# of tensors and JAX's arrays, by names that nothing of ours has
OF_TORCH = """requires_grad requires_grad_ grad_fn is_leaf is_nested is_meta is_inference is_cuda is_cpu
is_sparse_csr is_coalesced coalesce crow_indices ccol_indices resolve_conj resolve_neg
is_conj is_neg is_contiguous element_size data_ptr stride untyped_storage _version
is_floating_point sparse_dim dense_dim"""
OF_JAX = """aval weak_type n_sparse n_batch n_dense is_fully_addressable addressable_shards
sharding block_until_ready"""
OURS = {
    "inverse",
    "solve",
    "name",
}  # of a factorization, a preconditioner: asked of what is no array
NAMES = {*OF_TORCH.split(), *OF_JAX.split()}


def attributes(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.attr


def felt_for(tree: ast.AST) -> Iterator[str]:
    """The names in hasattr(x, "name") and getattr(x, "name", default)."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Name(id="hasattr" | "getattr"), args=[_, ast.Constant(str(name)), *_]
            ):
                yield name


def test_no_attribute_of_a_framework() -> None:
    found = {
        str(path.relative_to(SRC)): names
        for path in FILES
        if (names := NAMES & {*attributes(tree := ast.parse(path.read_text())), *felt_for(tree)})
    }
    assert not found, "ask the front end, by a function of core.frameworks.dispatch"


@pytest.mark.parametrize(("framework", "array"), [("torch", "Tensor"), ("jax", "Array")])
def test_what_is_felt_for_is_of_no_framework(framework: str, array: str) -> None:
    """Names that arrays of today's versions have, and NumPy's have not, are not used."""
    kind = getattr(pytest.importorskip(framework), array)
    beyond = {*dir(kind)} - {*dir(np.ndarray), *OURS}
    found = {
        str(path.relative_to(SRC)): names
        for path in FILES
        if (names := beyond & {*felt_for(ast.parse(path.read_text()))})
    }
    assert not found
