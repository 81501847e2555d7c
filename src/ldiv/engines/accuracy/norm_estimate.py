"""|A|_1 and |A^-1|_1 from a few products and solves; the condition number is their product.

Reference: Higham and Tisseur, SIAM J. Matrix Anal. Appl. 21 (2000), by SciPy's `onenormest`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, onenormest

Product = Callable[[Any], Any]
COLUMNS = 8  # of the block of onenormest
STEPS = 5  # at most


def one_norm(
    n: int,
    dtype: Any,
    product: Product,
    adjoint: Product,
    columns: int = COLUMNS,
    steps: int = STEPS,
) -> float:
    """Estimate |A|_1 from below, nearly always exactly, by products of A and A^H with blocks (n,
    k).
    """

    def on(f: Product) -> Product:
        def of_block(v: Any) -> Any:
            block = np.asarray(v, dtype=dtype)
            # SciPy calls it with vectors (n,), too
            return f(block) if block.ndim == 2 else f(block[:, None])[:, 0]

        return of_block

    forward, backward = on(product), on(adjoint)
    operator = LinearOperator(
        (n, n), matvec=forward, rmatvec=backward, matmat=forward, rmatmat=backward, dtype=dtype
    )
    return float(onenormest(operator, t=min(columns, n), itmax=steps))
