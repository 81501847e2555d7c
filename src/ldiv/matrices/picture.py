"""A picture of a sparsity pattern."""

from __future__ import annotations

from typing import Any

from ldiv.core.arrays.typing import AnyArray
from ldiv.core.calls.public import public
from ldiv.errors import expected_got
from ldiv.matrices.construct import as_sparse
from ldiv.matrices.sparse_array import SparseArray


@public
def spy(
    A: SparseArray | AnyArray,
    *,
    ax: Any = None,
    marker: str = "s",
    markersize: float | None = None,
    **kwargs: Any,
) -> Any:
    """Draw the entries of a sparse array as points, by matplotlib.

    Parameters
    ----------
    A : SparseArray, or what `asarray` takes
        The matrix. Stored entries are drawn, explicit zeros too, the values are not read.
    ax : matplotlib.axes.Axes, optional
        Where to draw; the current axes where it is absent.
    marker : str, default "s"
        The shape of the points.
    markersize : float, optional
        Their size; where it is absent that of an entry, and at least 1.
    **kwargs : any
        For `matplotlib.axes.Axes.plot`: `color`, `alpha` ...

    Returns
    -------
    line : matplotlib.lines.Line2D
        The points.

    Raises
    ------
    ImportError
        Where matplotlib is not installed: `pip install 'ldiv[plot]'`.

    Notes
    -----
    Not differentiable: a picture is of the pattern. Cost: nnz points, no dense array.

    Examples
    --------
    >>> import ldiv, matplotlib.figure
    >>> ax = matplotlib.figure.Figure().subplots()
    >>> len(ldiv.spy(ldiv.eye_array(5), ax=ax).get_xdata())
    5
    """
    a = as_sparse("A", A)
    if ax is None:
        ax = _current_axes()
    m, n = a.structure.shape
    if markersize is None:
        box = ax.get_window_extent()
        points = 72 / ax.figure.dpi
        markersize = max(1.0, 0.8 * points * min(box.width / max(n, 1), box.height / max(m, 1)))
    options = {"linestyle": "none", "color": "black", "markeredgewidth": 0.0} | kwargs
    (line,) = ax.plot(a.col, a.row, marker=marker, markersize=markersize, **options)
    ax.set(xlim=(-0.5, max(n, 1) - 0.5), ylim=(max(m, 1) - 0.5, -0.5), aspect="equal")
    ax.set_xlabel(f"{a.nnz} entries")
    ax.xaxis.tick_top()
    return line


def _current_axes() -> Any:
    try:
        import matplotlib.pyplot
    except ImportError as missing:
        raise ImportError(
            expected_got("spy", "matplotlib", missing, "pip install 'ldiv[plot]'.")
        ) from missing
    return matplotlib.pyplot.gca()
