"""Sparse matrices in PyTorch's modules, files and data loaders.

    layer = ldiv.nn.SparseMatrix(K);    u = layer.solve(f)

Once this is imported, torch.load reads a SparseArray as it reads tensors, and the default collate of
a DataLoader stacks the values of those on one pattern.
"""

from ldiv.errors import expected_got

try:
    import torch
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        expected_got("ldiv.nn", "PyTorch", str(missing), "pip install 'ldiv[torch]'."),
        name=missing.name,
    ) from None

from torch.utils.data._utils.collate import default_collate_fn_map

from ldiv.matrices.sparse_array import SparseArray, from_stored
from ldiv.nn.collating import stacked
from ldiv.nn.sparse_matrix import SparseMatrix

torch.serialization.add_safe_globals([from_stored])
default_collate_fn_map[SparseArray] = stacked

__all__ = ["SparseMatrix"]
