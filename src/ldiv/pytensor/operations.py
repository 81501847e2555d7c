"""Functions of ldiv as operations of PyTensor: x = A^-1 b, log |det A| and its derivatives.

pullback     of x: lam = A^-T x_bar;  b_bar = lam,  values_bar[e] = -lam[row[e]] x[col[e]]
             of log |det A|: G[e] = (A^-1)[col[e], row[e]]
             of G: T(G_bar), the tangent of G along G_bar, since it is a second derivative
cost         1 factorization for all of them, by the numbers of the matrix: a graph of PyTensor
             owns nothing between its operations, so its factors are in the store
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from pytensor.gradient import grad_not_implemented
from pytensor.graph.basic import Apply
from pytensor.link.jax.ops import JAXOp
from pytensor.tensor import as_tensor_variable, cast
from pytensor.tensor.type import tensor

from ldiv.core.arrays.typing import Assumption, Trans
from ldiv.core.owners.holder import holding, store
from ldiv.core.rules.rule import bind
from ldiv.linalg.inverses.determinants import logdet
from ldiv.linalg.systems.solve import solve
from ldiv.matrices.assumptions import definiteness, promised
from ldiv.matrices.sparse_array import SparseArray
from ldiv.rules.inverse_entries import InverseTangent, inverse_entries
from ldiv.structures.sparse import Sparse


class OfMatrix(JAXOp):  # type: ignore[misc]
    """A function of the values of a sparse matrix, and perhaps of another array.

    A subclass defines `perform_jax`, which takes arrays of NumPy as well, the type of its result,
    and `pullback`. A JAXOp is found by PyTensor's linker for JAX, and loads JAX for no other.
    """

    __props__: tuple[str, ...] = ("structure", "assume_a")

    def __init__(self, structure: Sparse, assume_a: Assumption) -> None:
        self.structure = structure
        self.assume_a = assume_a

    def __repr__(self) -> str:
        n, nnz = self.structure.shape[0], self.structure.pattern.rows.size
        return f"ldiv.{type(self).__name__}{{{n} x {n}, {nnz} entries, {self.assume_a}}}"

    __str__ = __repr__

    def make_node(self, *inputs: Any) -> Apply:
        """Make all inputs of one dtype; the result has the type of the last one."""
        given = [as_tensor_variable(x) for x in inputs]
        dtype = np.result_type(np.float32, *(x.dtype for x in given)).name
        given = [cast(x, dtype) for x in given]
        return Apply(self, given, [self.result(given[-1])])

    def result(self, last: Any) -> Any:
        return last.type()

    def infer_shape(self, fgraph: Any, node: Any, shapes: Sequence[Any]) -> list[Any]:
        return [shapes[-1]]

    def perform(self, node: Any, inputs: Sequence[Any], outputs: Any) -> None:
        """Compute with copies: PyTensor may write to its arrays once this has returned."""
        with holding(store):
            x = self.perform_jax(*(np.array(x) for x in inputs))
        outputs[0][0] = np.asarray(x, dtype=node.outputs[0].dtype)

    def matrix(self, values: Any) -> SparseArray:
        return SparseArray(self.structure, values)

    def L_op(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Any]:
        """Differentiate by the name that PyTensor 2 has for `pullback`."""
        return self.pullback(inputs, outputs, cotangents)


class Solve(OfMatrix):
    """x = A^-1 b or A^-T b, for one vector or a block of them."""

    __props__ = ("structure", "assume_a", "trans")

    def __init__(self, structure: Sparse, assume_a: Assumption, trans: Trans = "N") -> None:
        super().__init__(structure, assume_a)
        self.trans = trans

    def perform_jax(self, values: Any, b: Any) -> Any:
        return solve(self.matrix(values), b, assume_a=self.assume_a, trans=self.trans)

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Any]:
        values, _ = inputs
        plain = self.trans == "N"
        lam = Solve(self.structure, self.assume_a, "T" if plain else "N")(values, *cotangents)
        left, right = (lam, outputs[0]) if plain else (outputs[0], lam)
        return [-self._outer(left, right), lam]

    def _outer(self, left: Any, right: Any) -> Any:
        """Compute left right^T on the pattern, and its symmetric part if A is symmetric."""
        rows, cols = self.structure.pattern.rows, self.structure.pattern.cols
        product = left[rows] * right[cols]
        if self.assume_a != "gen":
            product = (product + left[cols] * right[rows]) / 2
        return product if left.ndim == 1 else product.sum(1)


class LogDet(OfMatrix):
    """log |det A|."""

    def perform_jax(self, values: Any) -> Any:
        return logdet(self.matrix(values), assume_a=self.assume_a)

    def result(self, last: Any) -> Any:
        return tensor(dtype=last.dtype, shape=())

    def infer_shape(self, fgraph: Any, node: Any, shapes: Sequence[Any]) -> list[Any]:
        return [()]

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Any]:
        return [cotangents[0] * LogDetGradient(self.structure, self.assume_a)(*inputs)]


class LogDetGradient(OfMatrix):
    """G[e] = (A^-1)[col[e], row[e]]."""

    def perform_jax(self, values: Any) -> Any:
        structure, p = promised(self.matrix(values), self.assume_a)
        return inverse_entries(structure, p, definiteness(structure, self.assume_a))

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Any]:
        return [LogDetCurvature(self.structure, self.assume_a)(*inputs, *cotangents)]


class LogDetCurvature(OfMatrix):
    """T(E): the product of the second derivative of log |det A| with the values of E."""

    def perform_jax(self, values: Any, e: Any) -> Any:
        structure, p = promised(self.matrix(values), self.assume_a)
        rule = InverseTangent(structure, definiteness(structure, self.assume_a))
        return bind(rule, p, e)[0]

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Any]:
        reason = "third derivatives of a determinant"
        values, _ = inputs
        return [grad_not_implemented(self, 0, values, reason), self(values, *cotangents)]
