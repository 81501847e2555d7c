"""The storage of the values of a sparse array: their dtype, their device, their graph."""

from __future__ import annotations

from typing import Any, Self

import array_api_compat
import numpy as np

from ldiv.core.arrays.shapes import numpy_dtype
from ldiv.core.arrays.validate import DTYPES
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import constant, frontend_of, namespace
from ldiv.errors import shown, type_error
from ldiv.matrices.sparse_values import SparseValues


class Storage(SparseValues):
    """Conversions to other dtypes and devices, and to constants."""

    @public
    def astype(self, dtype: Any) -> Self:
        """The values in another dtype, of their framework or by NumPy's name."""
        x = self.data
        return self._with(namespace(x).astype(x, own_dtype(x, dtype)))

    @property
    def device(self) -> Any:
        """The device of the values, as their framework names it."""
        return array_api_compat.device(self.data)

    @public
    def to(self, *args: Any, **kwargs: Any) -> Self:
        """The values on another device, or in another dtype, or both: `A.to("cuda")`.

        Differentiable. PyTorch's own `to` with all its arguments; with NumPy and JAX `to(device)`,
        `to(dtype)` or `to(device, dtype)`.
        """
        x = self.data
        if (own := frontend_of(x).to) is not None:
            return self._with(own(x, *args, **kwargs))
        wanted = dict(kwargs)
        for one in args:
            wanted.setdefault("dtype" if _is_dtype(one) else "device", one)
        if not wanted.keys() <= {"device", "dtype"} or len(wanted) != len(args) + len(kwargs):
            raise type_error(
                "to", "a device, a dtype, or both", shown((args, kwargs)), "Say each once."
            )
        if (device := wanted.get("device")) is not None:
            x = array_api_compat.to_device(x, device)
        if (dtype := wanted.get("dtype")) is not None and numpy_dtype(x) != np.dtype(dtype):
            x = namespace(x).astype(x, np.dtype(dtype))
        return self._with(x)

    def detach(self) -> Self:
        """The same values as constants."""
        return self._with(constant(self.data))


def own_dtype(x: Array, dtype: Any) -> Any:
    """A dtype of the framework of x, or of NumPy, as one of the framework."""
    of_numpy = dtype
    if isinstance(dtype, str | type | np.dtype):
        try:
            name = np.dtype(dtype).name
        except Exception:  # no name, no class of numbers
            name = ""
        of_numpy = getattr(namespace(x), name, None) if name in DTYPES else None
    if of_numpy is None or not isinstance(of_numpy, type | type(x.dtype) | np.dtype):
        raise type_error("dtype", "one of " + ", ".join(DTYPES), shown(dtype), "Values are floats.")
    return of_numpy


def _is_dtype(x: object) -> bool:
    try:
        np.dtype(x)  # type: ignore[call-overload]  # whatever it is
    except TypeError:
        return False
    return x is not None
