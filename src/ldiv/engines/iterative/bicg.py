"""BiCG: any square matrix, short recurrences with A and A^H; SciPy's.

Cost of a step: 1 product with A and M each, and 1 with A^H and M^H.
Reference: Fletcher, Lecture Notes in Mathematics 506 (1976).
"""

from __future__ import annotations

from scipy.sparse.linalg import bicg

RANK = 92
ITERATE = bicg
