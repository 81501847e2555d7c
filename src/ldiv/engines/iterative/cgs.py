"""CGS: any square matrix; biconjugate gradients squared; SciPy's.

Cost of a step: 2 products with A, 2 with M.
Reference: Sonneveld, SIAM J. Sci. Stat. Comput. 10 (1989).
"""

from __future__ import annotations

from scipy.sparse.linalg import cgs

RANK = 93
ITERATE = cgs
