"""Every row of docs/coming_from.md is run: both sides give the same numbers, and in PyTorch the same
gradient.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

PAGE = (Path(__file__).parents[2] / "docs" / "coming_from.md").read_text()
# a table of what raises: cells of calls, each in its own backticks
REFUSED = PAGE.partition("| refused |")[2].partition("\n\n")[0]
CELLS = re.findall(r"^\| (`[^|]*) \|", REFUSED, re.MULTILINE)
REFUSALS = [code for cell in CELLS for code in re.findall(r"`(.+?)`", cell)]
PAGE = PAGE.replace(REFUSED, "")
SECTIONS = dict(re.findall(r"^## From ([\w -]+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
ROW = re.compile(r"^\| `(.+?)`(?:, [^`|]*| \([^`|]*\))? \| `(.+?)`(?:, [^|]*)? \|$", re.MULTILINE)
ROWS = [
    pytest.param(
        *(section, there, here),
        id=f"{section}: {there}",
        # JAX compiles each row for itself
        marks=pytest.mark.exhaustive if section == "JAX" and i else (),
    )
    for section, text in SECTIONS.items()
    for i, (there, here) in enumerate(ROW.findall(text))
]
# of SciPy's, given ldiv's matrix: they take operators, or ask no more than the matrix can answer
THEIRS = {
    *("cg", "gmres", "bicgstab", "minres", "eigsh", "eigs", "svds", "lobpcg", "onenormest"),
    *("aslinearoperator", "lsmr"),
}
# rows that show what a SparseArray has and SciPy's has not, or that change one in place
OF_OURS_ALONE = ("with_data",)
# what Julia's code says, in NumPy
JULIA = {
    r"A \ b": lambda x: np.linalg.solve(x.D, x.b),
    r"A' \ b": lambda x: np.linalg.solve(x.D.T, x.b),
    r"transpose(A) \ b": lambda x: np.linalg.solve(x.D.T, x.b),
    r"F = lu(A); F \ b": lambda x: np.linalg.solve(x.D, x.b),
    r"F = cholesky(Symmetric(A)); F \ b": lambda x: np.linalg.solve(x.D, x.b),
    r"LowerTriangular(A) \ b": lambda x: np.linalg.solve(np.tril(x.D), x.b),
    r"Diagonal(d) \ b": lambda x: x.b / x.d,
    r"(A + B * B') \ b": lambda x: np.linalg.solve(x.D + x.B @ x.B.T, x.b),
    r"kron(A, A) \ ones(36)": lambda x: np.linalg.solve(np.kron(x.D, x.D), np.ones(36)),
    "logabsdet(A)[1]": lambda x: np.linalg.slogdet(x.D)[1],
    r"tr(A \ D)": lambda x: 6.0,
    "eigen(Symmetric(D)).values": lambda x: np.linalg.eigvalsh(x.D),
    "eigs(A, nev=2, sigma=0)[1]": lambda x: np.linalg.eigvalsh(x.D)[:2],
    "cg(A, b)": lambda x: np.linalg.solve(x.D, x.b),
    "sparse(I, J, V)": lambda x: np.array([[1.0, 0.0], [3.0, 2.0]]),
    "spdiagm(0 => d, 1 => e)": lambda x: np.diag(x.d) + np.diag(x.e, 1),
    "A[free, free]": lambda x: x.D[np.ix_(x.free, x.free)],
    "nonzeros(A), nnz(A)": lambda x: (np.concatenate([x.d, x.e, x.e]), 16),
    "[A B; B' zeros(2, 2)]": lambda x: np.block([[x.D, x.B], [x.B.T, np.zeros((2, 2))]]),
    "mul!(C, A, B, 2.0, 1.0)": lambda x: 2.0 * x.D @ x.B + x.B,
    r"Zygote.gradient(b -> sum(A \ b), b)[1]": lambda x: np.linalg.solve(x.D.T, np.ones(6)),
}


class Names(dict[str, Any]):
    __getattr__ = dict.__getitem__


def setup_of(section: str) -> Names:
    if section == "scikit-sparse":
        pytest.importorskip("sksparse.cholmod", reason="scikit-sparse is not installed")
    names = Names(np=np)
    exec(re.search(r"```py(?:thon)?\n(.*?)```", SECTIONS[section], re.DOTALL)[1], names)
    return names


def value(code: str, names: Names) -> Any:
    """The value of the last expression."""
    *before, last = ast.parse(code).body
    exec(compile(ast.Module(before, []), code, "exec"), names)
    return eval(compile(ast.Expression(last.value), code, "eval"), names)


def numbers(x: Any) -> list[Any]:
    if isinstance(x, tuple):
        return [y for part in x for y in numbers(part)]
    x = x.toarray() if hasattr(x, "toarray") else x
    return [x if isinstance(x, torch.Tensor) else np.asarray(x)]


def test_every_row_is_found() -> None:
    assert len(ROWS) == len(re.findall(r"^\| `", PAGE, re.MULTILINE))
    assert len(CELLS) == len(re.findall(r"^\| `", REFUSED, re.MULTILINE))
    assert len(REFUSALS) > 20
    assert {there for _, there, _ in (row.values for row in ROWS if row.values[0] == "Julia")} == {
        *JULIA
    }


@pytest.mark.filterwarnings("ignore:Sparse|.*sparse tensor:UserWarning")
@pytest.mark.parametrize(("section", "there", "here"), ROWS)
def test_both_sides_are_equal(section: str, there: str, here: str) -> None:
    names = setup_of(section)
    theirs = JULIA[there](names) if section == "Julia" else value(there, names)
    mine = value(here, names)
    rtol = 1e-5 if section == "JAX" or "float32" in there else 1e-8
    for a, b in zip(numbers(mine), numbers(theirs), strict=True):
        assert a.shape == b.shape
        detached = [x.detach() if isinstance(x, torch.Tensor) else x for x in (a, b)]
        np.testing.assert_allclose(*detached, rtol=rtol, atol=rtol)
        if getattr(b, "requires_grad", False):
            grads = [
                torch.autograd.grad((y**2).sum(), names.v, retain_graph=True)[0] for y in (a, b)
            ]
            torch.testing.assert_close(*grads, rtol=rtol, atol=rtol)


OF_SCIPY = [row.values[1:] for row in ROWS if row.values[0] == "SciPy"]


def equal(mine: Any, theirs: Any) -> None:
    for a, b in zip(numbers(mine), numbers(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-8)


def test_matrices_of_scipy_go_where_ours_go() -> None:
    for there, here in OF_SCIPY:
        given = re.sub(r"\bA\b", "S", here)
        if given not in (here, there) and not any(word in here for word in OF_OURS_ALONE):
            equal(value(given, setup_of("SciPy")), value(there, setup_of("SciPy")))


@pytest.mark.filterwarnings("ignore:.*format:scipy.sparse.SparseEfficiencyWarning")
def test_what_scipy_does_with_our_matrices() -> None:
    """The functions that the page names, right; any other is right, too, or refuses."""
    called = set()
    for there, _ in OF_SCIPY:
        given = re.sub(r"\bS\b", "A", there)
        if given == there or "T = " in there:  # changed in place
            continue
        named = {*re.findall(r"\bspl\.(\w+)", there)} & THEIRS
        called |= named
        try:
            mine = value(given, setup_of("SciPy"))
        except (TypeError, ValueError, AttributeError):
            assert not named, there
        else:
            equal(mine, value(there, setup_of("SciPy")))
    assert called >= {"cg", "gmres", "eigsh", "svds"}


@pytest.mark.parametrize("name", sorted(THEIRS))
def test_functions_that_the_page_names(name: str) -> None:
    names = setup_of("SciPy")
    paragraph = PAGE.partition("**The other way.**")[2].partition("\n\n")[0]
    assert f"`{name}`" in paragraph or name == "aslinearoperator"
    extra = {"eigsh": "2", "eigs": "2", "svds": "2", "lobpcg": "B[:, :1]"}.get(name, "b")
    extra = {"onenormest": "", "aslinearoperator": ""}.get(name, extra)
    ours, theirs = (value(f"spl.{name}({M}, {extra})", names) for M in "AS")
    if name in ("onenormest", "aslinearoperator"):
        ours, theirs = (x @ names.b if name == "aslinearoperator" else x for x in (ours, theirs))
    else:
        ours, theirs = (np.sort(x[1] if name == "svds" else x[0]) for x in (ours, theirs))
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)


@pytest.mark.parametrize("code", REFUSALS)
def test_what_is_refused(code: str) -> None:
    with pytest.raises((TypeError, ValueError)):
        value(code, setup_of("SciPy"))


@pytest.mark.parametrize(
    "code",
    [
        "ldiv.solve(O, b)",
        "ldiv.cg(O, b)[0]",
        "ldiv.gmres(O, b)[0]",
        "ldiv.eigsh(O, 2)[0]",
        "ldiv.eigs(O, 2)[0]",
        "ldiv.svds(O, 2)[1]",
        "ldiv.lobpcg(O, B[:, :1])[0]",
        "ldiv.expm_multiply(O, b)",
    ],
)
def test_operators_of_scipy_go_where_products_are_enough(code: str) -> None:
    names = setup_of("SciPy")
    names["O"] = names.spl.aslinearoperator(names.S)
    equal(value(code, names), value(code.replace("O", "A", 1), names))
