"""Advice for keywords that other libraries have and a function of ldiv has not."""

from __future__ import annotations

from collections.abc import Iterable

from ldiv.errors import meant

# by keyword: the one that stands for it here, and what to write
INSTEAD = {
    "adjoint": ("trans", "Write trans='H'."),
    "args": ("params", "What f depends on is `params`: f(x, params)."),
    "dim": ("axis", "Write `axis`."),
    "dims": ("axes", "Write `axes`."),
    "driver": ("lapack_driver", "Write `lapack_driver`."),
    "eigvals": ("subset_by_index", "Write `subset_by_index`."),
    "fprime": ("pattern", "Derivatives are those of f; `pattern` says which of them are not 0."),
    "ftol": ("tol", "Write `tol`."),
    "gtol": ("tol", "Write `tol`."),
    "jac": ("pattern", "Derivatives are those of f; `pattern` says which of them are not 0."),
    "jac_sparsity": ("pattern", "Write `pattern`."),
    "max_nfev": ("maxiter", "Write `maxiter`."),
    "maxfev": ("maxiter", "Write `maxiter`."),
    "options": ("maxiter", "Write each of them as a keyword."),
    "sym_pos": ("assume_a", "Write assume_a='pos'."),
    "unitriangular": ("unit_diagonal", "Write `unit_diagonal`."),
    "upper": ("lower", "Write `lower`, which is False by default."),
    "xtol": ("tol", "Write `tol`."),
    "callback": ("", "Nothing is called on the way."),
    "disp": ("", "Nothing is printed on the way."),
    "dtype": ("", "Results have the dtype of what comes in: convert that."),
    "left": ("", "X A = B is A^T X^T = B^T: solve with A.mT and B.mT, and take .mT of the result."),
    "like": ("", "With values of another framework: A.with_data(values)."),
    "out": ("", "Results are new arrays; ldiv.gemm and ldiv.matmul write into one that is there."),
    "show": ("", "Nothing is printed on the way."),
    "verbose": ("", "Nothing is printed on the way."),
    "x0": ("", "With r = b - A @ x0, add x0 to the solution for r."),
}


def too_many(name: str, given: int, places: list[str]) -> str:
    """The message for arguments without a place; empty if each has one."""
    if given <= len(places):
        return ""
    advice = " Others are keywords."
    if places == ["f", "x"]:
        advice = f" What f depends on besides x stands in it: {name}(lambda x: f(x, params), x)."
    return f"{name}() takes {', '.join(places)} by their places, got {given} arguments.{advice}"


def unexpected(name: str, given: Iterable[str], accepted: Iterable[str]) -> str:
    """The message for the first keyword that is given and not accepted; empty if there is none."""
    accepted = list(accepted)
    for keyword in given:
        if keyword in accepted:
            continue
        instead, advice = INSTEAD.get(keyword, ("none", ""))
        if instead and instead not in accepted:
            advice = meant(keyword, accepted).strip() or f"It takes {', '.join(accepted)}."
        return f"{name}() got an unexpected keyword argument {keyword!r}. {advice}"
    return ""
