"""Traits of a rule: all that a front end may take for granted of its kernel and derivatives."""

from __future__ import annotations

from dataclasses import dataclass

# The size of a matrix or vector up to which NumPy arrays cost less than arrays of a
# framework: SciPy's LAPACK is no slower than theirs, all around it takes less, and its BLAS wakes no
# threads beside those of the framework.
FEW = 128 * 128
ENGINE = 1 << 20  # for engines that work on NumPy arrays in any case
ITERATED = (
    1 << 17
)  # entries of an iteration's matrix, whose vectors PyTorch does not share among threads


@dataclass(frozen=True)
class Traits:
    """Declared properties of a rule.

    `name`: in error messages; that of the class if it is empty.
    `differentiable`: for each output; None if all are.
    `on_host`: the kernel and `vjp` may run on NumPy arrays instead. False if they call a
        function of the user.
    `few`: up to how many numbers of an argument NumPy arrays are preferred.
    `may_overflow`: a result may be infinite, as a product of the user's own may.
    `sees_overflow`: the kernel itself raises on overflow, on the host. A check in a trace would
        constrain XLA.
    `is_condition`: the checks must have passed before the outputs are used.
    `calls_user`: the kernel calls a function of the user, for which an array is what it was given.
    `only_refuses`: all checks of the kernel refuse. On a device, where a check is read later, none
        changes the control flow.
    """

    name: str = ""
    differentiable: tuple[bool, ...] | None = None
    on_host: bool = False
    few: int = FEW
    may_overflow: bool = False
    sees_overflow: bool = False
    is_condition: bool = False
    calls_user: bool = False
    only_refuses: bool = False
