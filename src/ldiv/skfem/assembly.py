"""K(c) = sum over elements e of c_e K_e, or of c_eq K_eq over the quadrature points q of each: linear
in c, with c_bar_e = <K_e, K_bar> on the entries of the element.

The elemental matrices K_e are numbers, made once by scikit-fem; the coefficient c is an array of
any framework. `elemental` keeps every entry, zeros included: the pattern does not depend on values.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from skfem.assembly.form.coo_data import COOData
from skfem.assembly.form.form import Form

from ldiv.core.arrays.shapes import alike, is_complex, numpy_dtype
from ldiv.core.arrays.validate import as_float
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.errors import shown, type_error, value_error
from ldiv.matrices.construct import coo_array
from ldiv.matrices.sparse_array import SparseArray
from ldiv.rules.gather import add_up


class Assembly:
    """Assemble elemental matrices or vectors with a coefficient, differentiably.

        K(c) = sum_e c_e K_e,    or    K(c) = sum_e sum_q c_eq K_eq

    Parameters
    ----------
    elemental : skfem.COOData
        What `form.elemental(basis)` returns for a bilinear or a linear form, or `at_points`, which
        keeps the quadrature points apart.

    Raises
    ------
    TypeError
        For what is no result of `elemental`.
    ValueError
        For a sum of elemental matrices of several forms, or a coefficient of another shape.

    Notes
    -----
    An assembly is called with c (*batch, elements), or (*batch, elements, points) for `at_points`,
    or a number as an array of shape (). It returns a SparseArray (*batch, m, n) for a bilinear
    form, a vector (*batch, n) for a linear one. Elements are those of the basis: facets in a
    `FacetBasis`.

    Differentiable in c in every mode and order. A sum of forms with a coefficient each is a sum of
    assemblies.

    Cost: a product for each entry of each elemental matrix (and quadrature point); the pattern is
    made and hashed once, so that its ordering and symbolic work serve every c.

    Examples
    --------
    >>> import ldiv.skfem, numpy as np, skfem
    >>> from skfem.models.poisson import laplace
    >>> basis = skfem.Basis(skfem.MeshLine(np.array([0.0, 0.5, 1.0])), skfem.ElementLineP1())
    >>> stiffness = ldiv.skfem.Assembly(laplace.elemental(basis))
    >>> stiffness(np.array([1.0, 3.0])).toarray()
    array([[ 2., -2.,  0.],
           [-2.,  8., -6.],
           [ 0., -6.,  6.]])
    """

    def __init__(self, elemental: COOData) -> None:
        rank = len(getattr(elemental, "shape", ()))
        if not isinstance(elemental, COOData) or rank not in (1, 2):
            raise type_error(
                "elemental",
                "form.elemental(basis) of a bilinear or linear form",
                shown(elemental),
                "A matrix that is assembled has lost its elements.",
            )
        if elemental.local_shape is None:
            raise value_error(
                "elemental",
                "the elements of one form on one basis",
                "a sum",
                "Assemble each of them, and add the matrices.",
            )
        entries = int(np.prod(elemental.local_shape))
        points = elemental.data.shape[1:]
        self._local = elemental.data.reshape(entries, -1, *points)
        self._shape = tuple(map(int, elemental.shape))
        if rank == 1:
            self._index = np.asarray(elemental.indices[0], np.int64)
            return
        ones = np.ones(elemental.indices.shape[1])
        self._pattern = coo_array((ones, tuple(elemental.indices)), shape=elemental.shape).structure

    @public
    def __call__(self, coefficient: Any) -> Any:
        c = as_float("coefficient", coefficient)
        own = self._local.ndim - 1
        if c.ndim and tuple(c.shape[-own:]) != self._local.shape[1:]:
            names = ", ".join(("elements", "points")[:own])
            raise value_error(
                "coefficient",
                f"shape (*batch, {names}), here (..., {', '.join(map(str, self._local.shape[1:]))})",
                str(tuple(c.shape)),
                "It has a number for each element of the basis; `at_points` takes one for"
                " each quadrature point.",
            )
        xp, local = namespace(c), self._beside(c)
        values = (
            (c[..., None, :] if own == 1 else c[..., None, :, :]) * local if c.ndim else c * local
        )
        values = values if own == 1 else xp.sum(values, axis=-1)
        values = xp.reshape(values, (*values.shape[:-2], values.shape[-2] * values.shape[-1]))
        if len(self._shape) == 1:
            return add_up(values, self._index, self._shape[0])
        return SparseArray(self._pattern, values)

    def _beside(self, c: Array) -> Array:
        """The elemental matrices in the framework, the precision and on the device of c."""
        complex_ = np.iscomplexobj(self._local) or is_complex(c)
        dtype = np.result_type(
            np.finfo(numpy_dtype(c)).dtype, np.complex64 if complex_ else np.float32
        )
        return namespace(c).asarray(self._local.astype(dtype, copy=False), **alike(c, dtype))

    def __repr__(self) -> str:
        m = " x ".join(map(str, self._local.shape[1:]))
        return f"<Assembly {self._shape}, coefficient ({m})>"


@public
def at_points(form: Form, *bases: Any, **parameters: Any) -> COOData:
    """Elemental matrices or vectors with their quadrature points apart, for `Assembly`.

        K_eq = form(phi_j, phi_i)(x_eq) |dx_eq|,    K_e = sum_q K_eq

    Parameters
    ----------
    form : skfem.BilinearForm or skfem.LinearForm
        The form without the coefficient.
    *bases : skfem.Basis
        As for `form.elemental`.
    **parameters
        As for `form.elemental`.

    Returns
    -------
    elemental : skfem.COOData
        With data (entries, points).

    Notes
    -----
    A constant. The points are those of the basis: `basis.global_coordinates()` says where.
    Cost: `form.elemental` once for each quadrature point of an element.

    Examples
    --------
    >>> import ldiv.skfem, numpy as np, skfem
    >>> from skfem.models.poisson import mass
    >>> basis = skfem.Basis(skfem.MeshLine(np.array([0.0, 1.0])), skfem.ElementLineP1())
    >>> weighted_mass = ldiv.skfem.Assembly(ldiv.skfem.at_points(mass, basis))
    >>> x = np.asarray(basis.global_coordinates())[0]
    >>> weighted_mass(x).sum().round(12)  # the integral of x from 0 to 1
    np.float64(0.5)
    """
    if not isinstance(form, Form) or form.form is None:
        raise type_error(
            "form", "a BilinearForm or LinearForm", shown(form), "It is that of scikit-fem."
        )
    points = bases[0].X.shape[-1]
    parts = [
        type(form)(partial(_at, form.form, point), dtype=form.dtype, nthreads=form.nthreads)
        for point in np.eye(points)
    ]
    every = [part.elemental(*bases, **parameters) for part in parts]
    return replace(every[0], data=np.stack([one.data for one in every], axis=-1))


def _at(form: Any, point: Any, *arguments: Any) -> Any:
    """The integrand at one quadrature point, zero at the others."""
    return form(*arguments) * point
