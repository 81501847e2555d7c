"""HIPS autograd: NumPy, whose operations are recorded.

    import autograd.numpy as np

This file imports the names that `ldiv.core.frameworks.frontend` requires, and no more. One idea per file:

    values        recorded arrays, and constants beside them
    rules         the kernel, the vjp and the jvp of a rule
    arrays        the functions of arrays that rules use
    transforms    functions of users
    user_transforms   autograd's own transforms, for gradcheck
"""

from ldiv.frontends.autograd.arrays import namespace, product, put, scatter, stacked
from ldiv.frontends.autograd.rules import bind
from ldiv.frontends.autograd.transforms import call, jvp, unrecorded, vjp
from ldiv.frontends.autograd.user_transforms import OwnTransforms
from ldiv.frontends.autograd.values import (
    asnumpy,
    clone,
    conj,
    constant,
    copied,
    device,
    host,
    on_host,
    owns,
)

records = "numpy"  # whose arrays its functions take
