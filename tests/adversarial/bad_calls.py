"""Bad calls of every public function: one or two arguments of a valid call are replaced by what
nobody should pass.

Allowed are a right result, or a ValueError, TypeError or LinAlgError that ldiv itself raises and
that names the argument. All else is a
failure: an error from inside a framework, a warning, NaN, a crash, a hang. Calls run in
subprocesses, in batches, under a limit of memory.

    python tests/adversarial/bad_calls.py numpy --seed 0 --count 2000
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import importlib
import inspect
import io
import itertools
import json
import linecache
import operator
import os
import random
import re
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

# where this folder is a package: the file is run as a script, too
sys.path.insert(0, str(Path(__file__).parents[1]))

import ldiv
from adversarial.case import Case, Wrong
from ldiv import structures
from ldiv.core.frameworks.dispatch import asnumpy
from ldiv.inplace.tape import OPERATIONS

FRAMEWORKS = ("numpy", "torch", "jax")
BATCH = 500  # calls of a subprocess
SECONDS = 300  # that it may take
MEMORY = 4 << 30  # bytes of addresses that a call may take beyond those that its process has
HERE, SOURCE = __file__, str(Path(ldiv.__file__).parent)
Make = Callable[[Any], Any]
Call = tuple[Callable[..., Any], dict[str, Any]]

# -- one valid call of every public function ----------------------------------

N = 4
RNG = np.random.default_rng(0)
A = RNG.standard_normal((N, N)) + N * np.eye(N)
S = A @ A.T
L = np.linalg.cholesky(S)
b, B = RNG.standard_normal(N), RNG.standard_normal((N, 2))
FIRST = np.array([9.0, 1, 2, 1])
TALL = RNG.standard_normal((6, 3))
BAND = np.array([[0.0, 1, 1, 1], [4, 4, 4, 4], [1, 1, 1, 0]])
ROWS, COLS = np.array([0, 1, 2, 3, 0, 3]), np.array([0, 1, 2, 3, 3, 0])
V = np.array([4.0, 5, 6, 7, 1, 1])


def sparse(to: Make) -> Any:
    return ldiv.coo_array((to(V.copy()), (ROWS, COLS)), shape=(N, N))


def scaled(p: Any, X: Any) -> Any:
    return p[:, None] * X


def residual(x: Any, p: Any) -> Any:
    return x**3 + x - p


def potential(x: Any, p: Any) -> Any:
    return (x**4 + x**2 - p * x).sum()


def cubes(x: Any) -> Any:
    return x**3


def energy(x: Any) -> Any:
    return (x**4).sum()


def save_npz(matrix: Any, compressed: bool) -> None:
    ldiv.save_npz(io.BytesIO(), matrix, compressed)


def load_npz(like: Any) -> Any:
    file = io.BytesIO()
    ldiv.save_npz(file, sparse(np.array))
    file.seek(0)
    return ldiv.load_npz(file, like=like)


def double(x: Any) -> Any:
    return 2 * x


EVERYWHERE: dict[str, Callable[[Make], Call]] = {
    "solve": lambda to: (ldiv.solve, {"A": to(A), "b": to(b)}),
    "solve sparse": lambda to: (ldiv.solve, {"A": sparse(to), "b": to(B)}),
    "solve iteratively": lambda to: (
        ldiv.solve,
        {
            "A": sparse(to),
            "b": to(b),
            "method": "gmres",
            "rtol": 1e-9,
            "M": "jacobi",
            "x0": to(0 * b),
        },
    ),
    "solve_triangular": lambda to: (ldiv.solve_triangular, {"A": to(L), "b": to(b), "lower": True}),
    "solve_banded": lambda to: (ldiv.solve_banded, {"l_and_u": (1, 1), "ab": to(BAND), "b": to(b)}),
    "solveh_banded": lambda to: (ldiv.solveh_banded, {"ab": to(BAND[:2]), "b": to(b)}),
    "cholesky_banded": lambda to: (ldiv.cholesky_banded, {"ab": to(BAND[:2])}),
    "cho_solve_banded": lambda to: (
        ldiv.cho_solve_banded,
        {"cb_and_lower": (to(BAND[:2]), False), "b": to(b)},
    ),
    "lsqr": lambda to: (ldiv.lsqr, {"A": to(TALL), "b": to(TALL[:, 0] + 1), "damp": 0.5}),
    "lsmr": lambda to: (ldiv.lsmr, {"A": to(TALL), "b": to(TALL[:, 0] + 1), "maxiter": 50}),
    "lstsq": lambda to: (ldiv.lstsq, {"a": to(TALL), "b": to(TALL[:, 0] + 1)}),
    "solve_qp": lambda to: (
        ldiv.solve_qp,
        {"P": to(S), "q": to(b), "G": to(A), "h": to(b + 3), "lb": to(b - 4), "ub": to(b + 4)},
    ),
    "lu_factor": lambda to: (ldiv.lu_factor, {"a": to(A)}),
    "lu_factor_ex": lambda to: (ldiv.lu_factor_ex, {"a": to(A)}),
    "lu": lambda to: (ldiv.lu, {"a": to(TALL)}),
    "lu_solve": lambda to: (ldiv.lu_solve, {"lu_and_piv": ldiv.lu_factor(to(A)), "b": to(b)}),
    "cholesky": lambda to: (ldiv.cholesky, {"a": to(S)}),
    "cholesky_update": lambda to: (ldiv.cholesky_update, {"L": to(L), "v": to(b)}),
    "schur_complement": lambda to: (ldiv.schur_complement, {"A": to(A), "keep": [0, 2]}),
    "cho_factor": lambda to: (ldiv.cho_factor, {"a": to(S)}),
    "cho_solve": lambda to: (ldiv.cho_solve, {"c_and_lower": (to(L), True), "b": to(b)}),
    "ldl": lambda to: (ldiv.ldl, {"A": to(S)}),
    "qr": lambda to: (ldiv.qr, {"a": to(TALL)}),
    "qr pivoting": lambda to: (ldiv.qr, {"a": to(TALL), "mode": "full", "pivoting": True}),
    "expm_multiply": lambda to: (
        ldiv.expm_multiply,
        {"A": sparse(to), "B": to(B), "start": 0.0, "stop": 0.5, "num": 2, "endpoint": True},
    ),
    "det": lambda to: (ldiv.det, {"A": to(A)}),
    "inv": lambda to: (ldiv.inv, {"A": to(A)}),
    "inertia": lambda to: (ldiv.inertia, {"A": to(S)}),
    "eigvalsh": lambda to: (ldiv.eigvalsh, {"A": to(S)}),
    "eigh_tridiagonal": lambda to: (
        ldiv.eigh_tridiagonal,
        {"d": to(b), "e": to(b[1:]), "select": "i", "select_range": (0, 1)},
    ),
    "svd": lambda to: (ldiv.svd, {"a": to(TALL)}),
    "svdvals": lambda to: (ldiv.svdvals, {"a": to(TALL)}),
    "pinv": lambda to: (ldiv.pinv, {"a": to(TALL), "atol": 1e-9, "rtol": 1e-9}),
    "matrix_rank": lambda to: (ldiv.matrix_rank, {"A": to(TALL), "tol": 1e-9}),
    "norm": lambda to: (ldiv.norm, {"a": to(TALL), "ord": 2, "axis": (0, 1)}),
    "norm sparse": lambda to: (ldiv.norm, {"a": sparse(to), "ord": 1, "axis": 0}),
    "onenormest": lambda to: (ldiv.onenormest, {"A": sparse(to), "t": 2, "itmax": 5}),
    "spsolve": lambda to: (ldiv.spsolve, {"A": sparse(to), "b": to(b)}),
    "spsolve_triangular": lambda to: (ldiv.spsolve_triangular, {"A": sparse(to), "b": to(b)}),
    "splu": lambda to: (ldiv.splu, {"A": sparse(to)}),
    "slogdet": lambda to: (ldiv.slogdet, {"A": to(A)}),
    "logdet": lambda to: (ldiv.logdet, {"A": to(S), "assume_a": "pos"}),
    "logdet slq": lambda to: (
        ldiv.logdet,
        {"A": to(S), "assume_a": "pos", "method": "slq", "probes": 4, "steps": 2, "rng": 0},
    ),
    "slogdet sparse": lambda to: (ldiv.slogdet, {"A": sparse(to), "assume_a": "gen"}),
    "selected_inverse": lambda to: (
        ldiv.selected_inverse,
        {"A": sparse(to), "assume_a": "gen", "fill": False},
    ),
    "inverse_diagonal": lambda to: (ldiv.inverse_diagonal, {"A": to(S), "assume_a": "pos"}),
    "quad_form": lambda to: (ldiv.quad_form, {"A": to(S), "x": to(b)}),
    "trace_solve": lambda to: (ldiv.trace_solve, {"A": to(A), "B": to(S)}),
    "trace_solve xtrace": lambda to: (
        ldiv.trace_solve,
        {"A": to(A), "B": to(S), "method": "xtrace", "probes": 3, "rng": 0},
    ),
    "eigh": lambda to: (ldiv.eigh, {"A": to(S)}),
    "eigh pencil": lambda to: (
        ldiv.eigh,
        {"A": to(A + A.T), "B": to(S), "subset_by_index": (0, 1)},
    ),
    "eigsh": lambda to: (ldiv.eigsh, {"A": to(S), "k": 2}),
    "eigsh sparse": lambda to: (ldiv.eigsh, {"A": sparse(to), "k": 1, "sigma": 0.5, "v0": to(b)}),
    "lobpcg": lambda to: (ldiv.lobpcg, {"A": sparse(to), "X": to(B), "tol": 1e-6}),
    "svds": lambda to: (ldiv.svds, {"A": to(TALL), "k": 1}),
    "eigenspace": lambda to: (
        ldiv.eigenspace,
        {"A": to(S), "k": 2, "which": "SA", "tol": 0, "maxiter": 100},
    ),
    "spectral_sum": lambda to: (ldiv.spectral_sum, {"f": double, "A": to(S), "k": 2}),
    "spectral_function": lambda to: (ldiv.spectral_function, {"f": double, "A": to(S), "k": 2}),
    "gaussian_kl": lambda to: (ldiv.gaussian_kl, {"L1": to(L), "L2": to(2 * L), "mean1": to(b)}),
    "gaussian_logpdf": lambda to: (
        ldiv.gaussian_logpdf,
        {"x": to(b), "L": to(L), "mean": to(0 * b)},
    ),
    "gemm": lambda to: (ldiv.gemm, {"alpha": 2.0, "a": to(A), "b": to(B), "beta": 1.0, "c": to(B)}),
    "matmul": lambda to: (ldiv.matmul, {"a": to(A), "b": to(B)}),
    "coo_array": lambda to: (ldiv.coo_array, {"arg": (to(V), (ROWS, COLS)), "shape": (N, N)}),
    "csr_array": lambda to: (
        ldiv.csr_array,
        {"arg": (to(V[:4]), COLS[:4], np.arange(5)), "shape": (N, N)},
    ),
    "csc_array": lambda to: (ldiv.csc_array, {"arg": (to(V[:4]), ROWS[:4], np.arange(5))}),
    "diags_array": lambda to: (
        ldiv.diags_array,
        {"diagonals": [to(b), to(b[1:])], "offsets": [0, 1]},
    ),
    "eye_array": lambda to: (ldiv.eye_array, {"m": 3, "n": 4, "k": 1, "like": to(b)}),
    "asarray": lambda to: (ldiv.asarray, {"x": to(A)}),
    "kron": lambda to: (ldiv.kron, {"A": to(A), "B": sparse(to)}),
    "block_array": lambda to: (ldiv.block_array, {"blocks": [[to(A), None], [sparse(to), to(S)]]}),
    "Gram": lambda to: (ldiv.Gram, {"L": to(L)}),
    "LowRank": lambda to: (ldiv.LowRank, {"U": to(B), "V": to(B)}),
    "Matrix": lambda to: (ldiv.Matrix, {"structure": structures.Diagonal(N), "params": to(b)}),
    "LinearOperator": lambda to: (
        ldiv.LinearOperator,
        {"matvec": scaled, "params": to(b), "shape": (N, N)},
    ),
    "SparseArray": lambda to: (
        ldiv.SparseArray,
        {"structure": sparse(to).structure, "data": to(V)},
    ),
    "preconditioner": lambda to: (ldiv.preconditioner, {"A": sparse(to), "kind": "jacobi"}),
    "preconditioner amg": lambda to: (
        ldiv.preconditioner,
        {"A": sparse(to), "kind": "amg", "near_nullspace": np.ones((N, 1))},
    ),
    "factorized": lambda to: (ldiv.factorized, {"A": to(A)}),
    "Factorized.solve": lambda to: (ldiv.factorized(sparse(to)).solve, {"b": to(b)}),
    "explain": lambda to: (ldiv.explain, {"A": to(A), "b": to(b)}),
    "gradient_error": lambda to: (
        ldiv.gradient_error,
        {"x_bar": to(b), "A": sparse(to), "b": to(b), "rtol": 1e-4},
    ),
    "vjp": lambda to: (ldiv.vjp, {"f": ldiv.solve, "*A": to(A), "*b": to(b)}),
    "pullback": lambda to: (ldiv.vjp(ldiv.solve, to(A), to(b))[1], {"y_bar": to(b)}),
    "jvp": lambda to: (
        ldiv.jvp,
        {"f": ldiv.solve, "primals": (to(A), to(b)), "tangents": (None, to(b))},
    ),
    "A @ x": lambda to: (operator.matmul, {"*A": sparse(to), "*x": to(b)}),
    "A + B": lambda to: (
        operator.add,
        {"*A": ldiv.kron(to(A[:2, :2]), to(A[:2, :2])), "*B": to(A)},
    ),
    "c * A": lambda to: (operator.mul, {"*A": ldiv.kron(to(A[:2, :2]), to(A[:2, :2])), "*c": 2.0}),
    "sparse + B": lambda to: (operator.add, {"*A": sparse(to), "*B": sparse(to).T}),
    "sparse * B": lambda to: (operator.mul, {"*A": sparse(to), "*B": to(A)}),
    "sparse / B": lambda to: (operator.truediv, {"*A": sparse(to), "*B": 2.0}),
    "with_data": lambda to: (sparse(to).with_data, {"values": to(V)}),
    "diagonal": lambda to: (sparse(to).diagonal, {"k": 1}),
    "sum": lambda to: (sparse(to).sum, {"axis": 0}),
    "symmetric": lambda to: (ldiv.symmetric, {"A": to(S)}),
    "hermitian": lambda to: (ldiv.hermitian, {"A": to(S)}),
    "positive_definite": lambda to: (ldiv.positive_definite, {"A": to(S)}),
    "triangular": lambda to: (ldiv.triangular, {"L": to(L)}),
    "orthonormal": lambda to: (ldiv.orthonormal, {"X": to(np.linalg.qr(TALL)[0])}),
    "gradcheck": lambda to: (
        ldiv.gradcheck,
        {"f": ldiv.solve, "*A": to(A), "*b": to(b), "modes": ("vjp",)},
    ),
    "errstate": lambda to: (ldiv.errstate, {"singular": "warn"}),
    "set_cache_limit": lambda to: (ldiv.set_cache_limit, {"nbytes": 1 << 30}),
    "set_num_threads": lambda to: (ldiv.set_num_threads, {"k": 1}),
}
BUFFERS: dict[str, Callable[[Make], Call]] = {  # NumPy and PyTorch
    "gemm in place": lambda to: (
        ldiv.gemm,
        {"alpha": 2.0, "a": to(A), "b": to(B), "beta": 1.0, "c": to(B), "overwrite_c": True},
    ),
    "matmul into": lambda to: (ldiv.matmul, {"a": to(A), "b": to(B), "out": to(0 * B)}),
    "Duplicated": lambda to: (ldiv.Duplicated, {"value": to(A), "shadow": to(0 * A)}),
    "autodiff": lambda to: (
        ldiv.autodiff,
        {"op": "solve", "*A": to(A), "*B": ldiv.Duplicated(to(B), to(B))},
    ),
    "Tape.gemm": lambda to: (
        ldiv.Tape().gemm,
        {"alpha": 1.0, "A": to(A), "B": to(B), "beta": 0.0, "C": to(0 * B)},
    ),
    "Tape.matmul": lambda to: (ldiv.Tape().matmul, {"A": to(A), "B": to(B), "out": to(0 * B)}),
    "Tape.solve": lambda to: (ldiv.Tape().solve, {"A": to(A), "B": to(B)}),
    "Tape.solve_triangular": lambda to: (
        ldiv.Tape().solve_triangular,
        {"A": to(L), "B": to(B), "lower": True},
    ),
    "Tape.lu": lambda to: (ldiv.Tape().lu, {"A": to(A)}),
    "Tape.cholesky": lambda to: (ldiv.Tape().cholesky, {"A": to(S)}),
    "Tape.axpy": lambda to: (ldiv.Tape().axpy, {"alpha": 2.0, "x": to(b), "y": to(b)}),
    "Tape.scale": lambda to: (ldiv.Tape().scale, {"alpha": 2.0, "x": to(b)}),
    "Tape.copy": lambda to: (ldiv.Tape().copy, {"x": to(b), "y": to(b)}),
}
TRACED: dict[str, Callable[[Make], Call]] = {  # PyTorch and JAX
    "jacobian": lambda to: (
        ldiv.jacobian,
        {"f": cubes, "x": to(b), "pattern": (np.arange(N), np.arange(N))},
    ),
    "hessian": lambda to: (ldiv.hessian, {"f": energy, "x": to(b)}),
    "hvp": lambda to: (ldiv.hvp, {"f": energy, "x": to(b), "v": to(b)}),
    "detect_pattern": lambda to: (ldiv.detect_pattern, {"f": cubes, "x": to(b)}),
    "root": lambda to: (
        ldiv.root,
        {
            "f": residual,
            "x0": to(b),
            "params": to(b),
            "line_search": "armijo",
            "stepmx": 3.0,
            "bounds": (-99.0, 99.0),
        },
    ),
    "root, ptc": lambda to: (
        ldiv.root,
        {"f": residual, "x0": to(b), "params": to(b), "method": "ptc", "dt0": 1.0},
    ),
    "least_squares": lambda to: (
        ldiv.least_squares,
        {
            "residual": residual,
            "x0": to(b),
            "params": to(b),
            "loss": "soft_l1",
            "f_scale": 2.0,
            "maxiter": 50,
        },
    ),
    "laplace": lambda to: (
        ldiv.laplace,
        {"f": potential, "x0": to(0 * b), "params": to(b), "pattern": (np.arange(N), np.arange(N))},
    ),
    "implicit": lambda to: (ldiv.implicit, {"f": residual, "x": to(0 * b), "params": to(0 * b)}),
}
EVERYWHERE |= {  # sparse arrays made of others
    "vstack": lambda to: (ldiv.vstack, {"blocks": [sparse(to), to(A)], "format": "csr"}),
    "hstack": lambda to: (ldiv.hstack, {"blocks": [sparse(to), to(A)], "format": "csc"}),
    "bmat": lambda to: (ldiv.bmat, {"blocks": [[sparse(to), None], [None, to(A)]]}),
    "block_diag": lambda to: (ldiv.block_diag, {"mats": [sparse(to), to(A)]}),
    "kronsum": lambda to: (ldiv.kronsum, {"A": sparse(to), "B": to(A)}),
    "tril": lambda to: (ldiv.tril, {"A": sparse(to), "k": 1, "format": "csr"}),
    "triu": lambda to: (ldiv.triu, {"A": to(A), "k": -1}),
    "setdiag": lambda to: (ldiv.setdiag, {"A": sparse(to), "values": to(b), "k": 0}),
    "identity": lambda to: (ldiv.identity, {"n": N, "format": "csr", "like": to(b)}),
    "random_array": lambda to: (
        ldiv.random_array,
        {"shape": (N, N), "density": 0.5, "format": "csr", "rng": 1, "like": to(b)},
    ),
    "save_npz": lambda to: (save_npz, {"matrix": sparse(to), "compressed": True}),
    "load_npz": lambda to: (load_npz, {"like": to(b)}),
}
EVERYWHERE |= {  # matrices of few numbers
    "toeplitz": lambda to: (ldiv.toeplitz, {"c": to(b), "r": to(b)}),
    "hankel": lambda to: (ldiv.hankel, {"c": to(b), "r": to(b)}),
    "circulant": lambda to: (ldiv.circulant, {"c": to(b)}),
    "convolution_matrix": lambda to: (
        ldiv.convolution_matrix,
        {"a": to(b), "n": N, "mode": "same"},
    ),
    "companion": lambda to: (ldiv.companion, {"a": to(b)}),
    "leslie": lambda to: (ldiv.leslie, {"f": to(b), "s": to(b[1:])}),
    "fiedler": lambda to: (ldiv.fiedler, {"a": to(b)}),
    "khatri_rao": lambda to: (ldiv.khatri_rao, {"a": to(A), "b": to(A)}),
    "solve_toeplitz": lambda to: (ldiv.solve_toeplitz, {"c_or_cr": to(FIRST), "b": to(b)}),
    "matmul_toeplitz": lambda to: (ldiv.matmul_toeplitz, {"c_or_cr": to(FIRST), "x": to(b)}),
    "solve_circulant": lambda to: (ldiv.solve_circulant, {"c": to(FIRST), "b": to(b)}),
}
EVERYWHERE |= {  # factors
    "orth": lambda to: (ldiv.orth, {"A": to(TALL), "rcond": 1e-9}),
    "null_space": lambda to: (ldiv.null_space, {"A": to(TALL.T), "rcond": 1e-9}),
    "polar": lambda to: (ldiv.polar, {"a": to(TALL), "side": "left"}),
    "orthogonal_procrustes": lambda to: (
        ldiv.orthogonal_procrustes,
        {"A": to(TALL), "B": to(TALL + 1)},
    ),
    "rq": lambda to: (ldiv.rq, {"a": to(TALL), "mode": "full"}),
    "qr_multiply": lambda to: (
        ldiv.qr_multiply,
        {"a": to(TALL), "c": to(TALL.T), "mode": "right", "pivoting": False},
    ),
    "pinvh": lambda to: (ldiv.pinvh, {"a": to(S), "atol": 1e-9, "rtol": 1e-9}),
    "subspace_angles": lambda to: (ldiv.subspace_angles, {"A": to(TALL), "B": to(TALL[:, :2])}),
}
EVERYWHERE |= {  # unsymmetric pairs, and banded ones
    "eig_banded": lambda to: (
        ldiv.eig_banded,
        {"a_band": to(BAND[:2]), "lower": False, "select": "i", "select_range": (0, 1)},
    ),
    "eigvals_banded": lambda to: (ldiv.eigvals_banded, {"a_band": to(BAND[:2]), "lower": False}),
    "eigvalsh_tridiagonal": lambda to: (
        ldiv.eigvalsh_tridiagonal,
        {"d": to(b), "e": to(b[1:]), "select": "a"},
    ),
    "eig": lambda to: (
        ldiv.eig,
        {"a": to(A), "b": to(S), "left": True, "right": True, "on_degenerate": "drop"},
    ),
    "eigs": lambda to: (ldiv.eigs, {"A": to(A), "k": 2, "M": to(S), "sigma": 0.5}),
    "eigs sparse": lambda to: (ldiv.eigs, {"A": sparse(to), "k": 1, "which": "LR", "v0": to(b)}),
    "eigvals": lambda to: (ldiv.eigvals, {"a": to(A), "b": to(S)}),
}
EVERYWHERE |= {  # iterations, questions
    "cg": lambda to: (ldiv.cg, {"A": to(S), "b": to(b), "rtol": 1e-9, "maxiter": 50}),
    "minres": lambda to: (ldiv.minres, {"A": to(S), "b": to(b), "shift": 0.0, "show": False}),
    "gmres": lambda to: (ldiv.gmres, {"A": to(A), "b": to(b), "restart": 4, "atol": 1e-12}),
    "bicg": lambda to: (ldiv.bicg, {"A": to(A), "b": to(b), "M": "jacobi"}),
    "cgs": lambda to: (ldiv.cgs, {"A": to(A), "b": to(b), "rtol": 1e-9}),
    "qmr": lambda to: (ldiv.qmr, {"A": to(A), "b": to(b), "M1": "jacobi"}),
    "tfqmr": lambda to: (ldiv.tfqmr, {"A": to(A), "b": to(b), "show": False}),
    "lgmres": lambda to: (ldiv.lgmres, {"A": to(A), "b": to(b), "inner_m": 5, "atol": 1e-12}),
    "vector_norm": lambda to: (ldiv.vector_norm, {"x": to(A), "ord": 3.0, "axis": (0, 1)}),
    "matrix_norm": lambda to: (ldiv.matrix_norm, {"x": to(A), "ord": "nuc", "axis": (0, 1)}),
    "cond": lambda to: (ldiv.cond, {"x": to(A), "p": 1}),
    "multi_dot": lambda to: (ldiv.multi_dot, {"arrays": [to(A), to(B), to(B.T)]}),
    "vecdot": lambda to: (ldiv.vecdot, {"x1": to(A), "x2": to(b), "axis": -1}),
    "tensorsolve": lambda to: (ldiv.tensorsolve, {"a": to(A), "b": to(b)}),
    "tensorinv": lambda to: (ldiv.tensorinv, {"a": to(A), "ind": 1}),
    "ldl_factor": lambda to: (ldiv.ldl_factor, {"A": to(S), "hermitian": True}),
    "ldl_solve": lambda to: (
        ldiv.ldl_solve,
        {"LD": to(L), "pivots": to(np.arange(1, N + 1)), "B": to(B)},
    ),
    "householder_product": lambda to: (ldiv.householder_product, {"A": to(A), "tau": to(b)}),
    "cholesky_ex": lambda to: (ldiv.cholesky_ex, {"A": to(S), "upper": True}),
    "inv_ex": lambda to: (ldiv.inv_ex, {"A": to(A), "check_errors": False}),
    "solve_ex": lambda to: (ldiv.solve_ex, {"A": to(A), "B": to(B), "left": True}),
    "schur": lambda to: (ldiv.schur, {"a": to(A), "output": "complex", "sort": "lhp"}),
    "rsf2csf": lambda to: (ldiv.rsf2csf, {"T": to(np.triu(A)), "Z": to(np.eye(N))}),
    "qz": lambda to: (ldiv.qz, {"A": to(A), "B": to(S), "output": "real"}),
    "ordqz": lambda to: (ldiv.ordqz, {"A": to(A), "B": to(S), "sort": "rhp"}),
    "hessenberg": lambda to: (ldiv.hessenberg, {"a": to(A), "calc_q": True}),
    "cdf2rdf": lambda to: (ldiv.cdf2rdf, {"w": to(b), "v": to(A)}),
    "matrix_balance": lambda to: (ldiv.matrix_balance, {"A": to(A), "permute": True}),
    "cossin": lambda to: (ldiv.cossin, {"X": to(np.linalg.qr(A)[0]), "p": 2, "q": 1}),
    "spilu": lambda to: (ldiv.spilu, {"A": sparse(to), "drop_tol": 1e-5}),
    "diags": lambda to: (ldiv.diags, {"diagonals": [to(b), to(b[1:])], "offsets": [0, 1]}),
    "spdiags": lambda to: (ldiv.spdiags, {"data": to(B.T), "diags": [0, 1], "m": 4, "n": 4}),
    "eye": lambda to: (ldiv.eye, {"m": 3, "n": 4, "k": 1}),
    "bicgstab": lambda to: (ldiv.bicgstab, {"A": to(A), "b": to(b), "M": "jacobi"}),
    "aslinearoperator": lambda to: (ldiv.aslinearoperator, {"A": to(A)}),
    "bandwidth": lambda to: (ldiv.bandwidth, {"a": to(A)}),
    "spbandwidth": lambda to: (ldiv.spbandwidth, {"A": sparse(to)}),
    "is_sptriangular": lambda to: (ldiv.is_sptriangular, {"A": sparse(to)}),
    "issymmetric": lambda to: (ldiv.issymmetric, {"a": to(S), "atol": 1e-9, "rtol": 1e-9}),
    "ishermitian": lambda to: (ldiv.ishermitian, {"a": to(S), "atol": 1e-9, "rtol": 1e-9}),
    "find": lambda to: (ldiv.find, {"A": sparse(to)}),
}
EVERYWHERE |= {  # functions of matrices
    name: (lambda to, name=name: (getattr(ldiv, name), {"A": to(S / 10)}))
    for name in (
        "expm", "logm", "sqrtm", "cosm", "sinm", "tanm", "coshm", "sinhm", "tanhm", "signm",
        "expm_cond",
    )
} | {
    "expm_frechet": lambda to: (
        ldiv.expm_frechet,
        {"A": to(S / 10), "E": to(A), "compute_expm": True},
    ),
    "matrix_exp": lambda to: (ldiv.matrix_exp, {"A": to(A / 10)}),
    "fractional_matrix_power": lambda to: (
        ldiv.fractional_matrix_power,
        {"A": to(S), "t": 0.5},
    ),
    "matrix_power": lambda to: (ldiv.matrix_power, {"A": to(A), "n": 3}),
    "funm": lambda to: (ldiv.funm, {"A": to(S / 10), "func": np.cos}),
}  # fmt: skip
EVERYWHERE |= {  # equations
    "solve_sylvester": lambda to: (ldiv.solve_sylvester, {"a": to(S), "b": to(S), "q": to(A)}),
    "solve_continuous_lyapunov": lambda to: (
        ldiv.solve_continuous_lyapunov,
        {"a": to(S), "q": to(A)},
    ),
    "solve_discrete_lyapunov": lambda to: (
        ldiv.solve_discrete_lyapunov,
        {"a": to(S / 100), "q": to(A), "method": "direct"},
    ),
    "solve_continuous_are": lambda to: (
        ldiv.solve_continuous_are,
        {"a": to(A), "b": to(A), "q": to(S), "r": to(S), "e": to(S), "s": to(0 * A)},
    ),
    "solve_discrete_are": lambda to: (
        ldiv.solve_discrete_are,
        {"a": to(A), "b": to(A), "q": to(S), "r": to(S), "e": to(S), "s": to(0 * A)},
    ),
}
VALID = {
    "numpy": EVERYWHERE | BUFFERS,
    "torch": EVERYWHERE | BUFFERS | TRACED,
    "jax": EVERYWHERE | TRACED,
}
# without arguments, made by others, or another name of one that is there
NO_CALLS = {
    "cache_info",
    "clear_cache",
    "get_num_threads",
    "jax_export_checks",
    "structures",
    "Tape",
    "Factorized",
    "FactorizedLstsq",
    "LaplaceApproximation",
    "SparseCholesky",
    "IncompleteLU",
    "UpdatedCholesky",
    "spy",
    "issparse",
    "solve_lyapunov",
}
SAYS_ALSO = {  # what a message may name instead of the argument
    "arg": "values|rows|columns|indices|indptr",
    "l_and_u": "l|u|ab",
    "lu_and_piv": "lu|piv|A",
    "c_and_lower": "c|lower|A",
    "c_or_cr": "c|r|A",
    "cb_and_lower": "cb|lower|ab|A",
    "structure": "params|values",
    "params": "matvec|f",
    "shape": "matvec|indptr|rows|columns|indices",
    "blocks": "block",
    "mats": "block",
    "A": "argument",
    "X": "argument",
    "x": "asarray|b|x0",
    "primals": "A|b|argument",
    "tangents": "tangent|argument",
    "*A": "argument",
    "*b": "argument",
    "*B": "other",
    "*c": "other",
    "op": "|".join(OPERATIONS),
    "near_nullspace": "options",
    "data": "values",
    "y_bar": "pullback|b",
    "out": "C",
    "diagonals": "diagonal",
    "ab": "A",
    "B": "M",
    "m": "shape",
    "mean": "b",
    "mean1": "b",
    "mean2": "b",
    "L": "A|b|argument",
    "offsets": "shape",
}
# of numbers: they name the matrix
CAUSES = (
    np.linalg.LinAlgError,
    ldiv.EngineError,
    ldiv.NotSymmetricError,
    ldiv.NotDifferentiableError,
)

# -- what nobody should pass --------------------------------------------------


class Odd:
    """Something of somebody's."""


def take_nothing() -> None:
    """A function of no arguments."""


def endless() -> list[Any]:
    """A list in itself."""
    one: list[Any] = []
    one.append(one)
    return one


LITERALS = "None '' 'abc' 'gen' 'T' 0 1 2 3 -1 -7 1.5 -2.5 True False 2**31 2**62 2**63 -2**63 10**400 10**5000 1j b'ab' ... () [] {} set() object"
ANYTHING: dict[str, Callable[[], Any]] = {
    **{text: partial(eval, text) for text in LITERALS.split()},
    "nan": lambda: np.nan,
    "inf": lambda: np.inf,
    "-inf": lambda: -np.inf,
    "numpy true": lambda: np.True_,
    "numpy int": lambda: np.int64(2),
    "numpy float": lambda: np.float32(0.5),
    "numpy nan": lambda: np.float64("nan"),
    "0-d flag": lambda: np.array(True),
    "0-d number": lambda: np.array(2.0),
    "flags": lambda: np.array([True, False]),
    "vector": lambda: np.ones(N),
    "square": lambda: np.eye(N),
    "integers": lambda: np.arange(3),
    "text array": lambda: np.array(["a", "b"]),
    "objects": lambda: np.array([None, 1], dtype=object),
    "dates": lambda: np.array(["2020-01-01"], dtype="datetime64[D]"),
    "records": lambda: np.zeros(3, dtype=[("a", float), ("b", int)]),
    "empty": lambda: np.empty((0, 0)),
    "empty vector": lambda: np.empty(0),
    "six axes": lambda: np.ones((1,) * 6),
    "list": lambda: [1.0, 2.0],
    "list of lists": lambda: [[1.0, 0.0], [0.0, 1.0]],
    "ragged": lambda: [1, [2, 3]],
    "endless": lambda: endless(),
    "pair": lambda: (0, 1),
    "pair of None": lambda: (None, None),
    "triple": lambda: (1, 2, 3),
    "words": lambda: ("a", "b"),
    "dict": lambda: {"a": 1},
    "dict of arrays": lambda: {"a": np.ones(2)},
    "range": lambda: range(4),
    "slice": lambda: slice(2),
    "generator": lambda: (i for i in range(3)),
    "lambda": lambda: lambda *args: None,
    "identity": lambda: lambda x, *rest: x,
    "no arguments": lambda: take_nothing,
    "class": lambda: Odd,
    "instance": lambda: Odd(),
    "module": lambda: np,
    "type": lambda: np.float64,
    "dtype": lambda: np.dtype("float32"),
    "scipy": lambda: sp.csr_array(np.eye(N)),
    "scipy matrix": lambda: sp.csc_matrix(np.eye(N)),
    "scipy class": lambda: sp.csr_array,
    "matrix": lambda: np.matrix(np.eye(N)),
    "masked": lambda: np.ma.masked_array(np.eye(N), mask=np.eye(N) > 0),
    "ours": lambda: ldiv.eye_array(N),
    "ours diagonal": lambda: ldiv.Matrix(structures.Diagonal(N), np.ones(N)),
    "ours diagonal structure": lambda: structures.Diagonal(N),
    "structure class": lambda: structures.Diagonal,
    "nonsense structure": lambda: structures.Diagonal("abc"),  # type: ignore[arg-type]
    "composed of nothing": lambda: structures.Sum(()),
    "factorized": lambda: ldiv.factorized(np.eye(N)),
    "error": lambda: ValueError("x"),
}


def of_torch() -> dict[str, Callable[[], Any]]:
    import torch

    return {
        "tensor flag": lambda: torch.tensor(True),
        "tensor number": lambda: torch.tensor(2.0),
        "tensor integer": lambda: torch.tensor(2),
        "tensor vector": lambda: torch.ones(N, dtype=torch.float64),
        "tensor": lambda: torch.eye(N, dtype=torch.float64),
        "meta": lambda: torch.eye(N, dtype=torch.float64, device="meta"),
        "meta flag": lambda: torch.tensor(True, device="meta"),
        "sparse coo": lambda: torch.eye(N, dtype=torch.float64).to_sparse(),
        "sparse csr": lambda: torch.eye(N, dtype=torch.float64).to_sparse_csr(),
        "sparse bsr": lambda: torch.eye(N, dtype=torch.float64).to_sparse_bsr((2, 2)),
        "quantized": lambda: torch.quantize_per_tensor(torch.eye(N), 0.1, 0, torch.qint8),
        "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        "size": lambda: torch.Size([4, 4]),
        "torch dtype": lambda: torch.float64,
    }


def of_jax() -> dict[str, Callable[[], Any]]:
    import jax
    import jax.numpy as jnp
    from jax.experimental import sparse

    return {
        "jax flag": lambda: jnp.array(True),
        "jax number": lambda: jnp.array(2.0),
        "jax vector": lambda: jnp.ones(N),
        "jax array": lambda: jnp.eye(N),
        "jax sparse": lambda: sparse.BCOO.fromdense(jnp.eye(N)),
        "shape alone": lambda: jax.ShapeDtypeStruct((N, N), np.float64),
        "key": lambda: jax.random.key(0),
        "jax dtype": lambda: jnp.float32,
    }


def memmap(x: Any) -> Any:
    with tempfile.TemporaryFile() as file:
        y = np.memmap(file, dtype=x.dtype, shape=x.shape)
    y[...] = x
    return y


def read_only(x: Any) -> Any:
    x.flags.writeable = False
    return x


def spoiled(x: Any, value: float) -> Any:
    x.reshape(-1)[x.size // 2] = value
    return x


def every_other(x: Any) -> Any:
    """The same numbers, in every other place of memory."""
    y = np.zeros((*x.shape, 2), x.dtype)
    y[..., 0] = x
    return y[..., 0]


OF_ARRAYS: dict[str, Callable[[Any], Any]] = {
    "shorter": lambda x: x[:-1],
    "thinner": lambda x: x[..., :-1],
    "without rows": lambda x: x[:0],
    "without columns": lambda x: x[..., :0],
    "one axis more": lambda x: x[None],
    "one axis more behind": lambda x: x[..., None],
    "batch of two": lambda x: np.stack([x, x]),
    "batch of none": lambda x: x[None][:0],
    "row": lambda x: x[0],
    "transposed": lambda x: x.T,
    "flat": lambda x: x.reshape(-1),
    "number": lambda x: x.reshape(-1)[0],
    "integers": lambda x: x.astype(int),
    "flags": lambda x: x != 0,
    "object": lambda x: x.astype(object),
    "text": lambda x: x.astype(str),
    "half": lambda x: x.astype(np.float16),
    "long": lambda x: x.astype(np.longdouble),
    "single": lambda x: x.astype(np.float32),
    "complex": lambda x: x + 1j * x,
    "foreign": lambda x: x.astype(x.dtype.newbyteorder()),
    "records": lambda x: x.astype([("a", float)]),
    "nan": lambda x: spoiled(x, np.nan),
    "infinity": lambda x: spoiled(x, -np.inf),
    "zeros": lambda x: 0 * x,
    "negative": lambda x: -x,
    "matrix": np.asmatrix,
    "masked": lambda x: np.ma.masked_array(x, mask=x > 0),
    "list": lambda x: x.tolist(),
    "tuple": lambda x: (x,),
    "pair": lambda x: (x, x),
    "scipy": lambda x: sp.csr_array(np.atleast_2d(x)),
    "broadcast": lambda x: np.broadcast_to(x[:1], x.shape),
}
HARMLESS: dict[str, Callable[[Any], Any]] = {
    "Fortran": np.asfortranarray,
    "reversed": lambda x: x[::-1].copy()[::-1],
    "every other": every_other,
    "read only": read_only,
    "memmap": memmap,
}
OF_TENSORS: dict[str, Callable[[Any], Any]] = {
    "meta": lambda x: x.to("meta"),
    "bfloat": lambda x: x.bfloat16(),
    "sparse": lambda x: x.to_sparse(),
    "NumPy": lambda x: x.numpy(),
}
HARMLESS_TENSORS: dict[str, Callable[[Any], Any]] = {
    "every other": lambda x: x.repeat_interleave(2, -1)[..., ::2],
    "parameter": lambda x: __import__("torch").nn.Parameter(x),
    "in a graph": lambda x: x.clone().requires_grad_() + 0,
    "conjugate": lambda x: x.conj(),
    "negative view": lambda x: (-x)._neg_view() if hasattr(x, "_neg_view") else x,
}

# -- cases --------------------------------------------------------------------


def converter(framework: str) -> Make:
    """A fresh array of the framework."""
    if framework == "torch":
        import torch

        return lambda x: torch.tensor(np.array(x))
    if framework == "jax":
        import jax

        jax.config.update("jax_enable_x64", True)
        return lambda x: jax.numpy.asarray(np.array(x))
    return lambda x: np.array(x)


def is_numbers(x: Any) -> bool:
    return hasattr(x, "dtype") and hasattr(x, "reshape") and not isinstance(x, ldiv.Matrix | type)


def host(x: Any) -> Any:
    return np.array(asnumpy(x))


# of which A stays: what is left of the sign is Python's affair
OPERATORS = (operator.matmul, operator.add, operator.mul, operator.truediv)


class Cases:
    """Endless, the same for the same seed."""

    def __init__(self, framework: str, seed: int) -> None:
        self.framework, self.to = framework, converter(framework)
        self.random = random.Random(f"{framework} {seed}")
        self.anything = list(
            (ANYTHING | {"numpy": dict, "torch": of_torch, "jax": of_jax}[framework]()).items()
        )
        self.names = sorted(VALID[framework])

    def __iter__(self) -> Iterator[tuple[str, Call, list[str], bool]]:
        """(label, call, the arguments that were replaced, whether the result must be that of the
        valid call).
        """
        while True:
            name = self.random.choice(self.names)
            f, args = VALID[self.framework][name](self.to)
            signature = {
                p.name: p.default
                for p in inspect.signature(f).parameters.values()
                if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
            }
            known = [
                name
                for name in dict.fromkeys([*args, *signature])
                if not (f in OPERATORS and name in ("a", "b", "*A"))
            ]
            chosen = self.random.sample(known, min(1 + (self.random.random() < 0.3), len(known)))
            label, harmless = name, True
            for argument in chosen:
                old = args.get(argument, signature.get(argument))
                kind, args[argument], same = self.replaced(old)
                label, harmless = f"{label}, {argument}: {kind}", harmless and same
            yield label, (f, args), chosen, harmless

    def replaced(self, old: Any) -> tuple[str, Any, bool]:
        """(what it is now, the value, whether it means the same)."""
        inside = isinstance(old, tuple | list) and len(old) and self.random.random() < 0.5
        if inside:
            i = self.random.randrange(len(old))
            kind, value, same = self.replaced(old[i])
            return f"[{i}] {kind}", type(old)([*old[:i], value, *old[i + 1 :]]), same
        if not is_numbers(old) or not getattr(old, "ndim", 0) or self.random.random() < 0.35:
            return self.something()
        kinds: list[tuple[str, Callable[[Any], Any], bool, bool]] = [
            (k, f, False, False) for k, f in OF_ARRAYS.items()
        ]
        if self.framework == "torch":
            kinds += [
                (k, f, True, same)
                for table, same in ((OF_TENSORS, False), (HARMLESS_TENSORS, True))
                for k, f in table.items()
            ]
        if isinstance(old, np.ndarray):
            kinds += [(k, f, False, True) for k, f in HARMLESS.items()]
        kind, change, whole, same = self.random.choice(kinds)
        if whole and not isinstance(old, np.ndarray):
            with contextlib.suppress(RuntimeError):  # integers have no gradients
                return kind, change(old), same
        if whole:
            return "itself", old, True
        try:
            with np.errstate(all="ignore"):
                new = change(host(old))
        except (TypeError, ValueError, IndexError, OverflowError):
            # it does not apply to this array
            return self.something()
        with contextlib.suppress(TypeError, ValueError):  # no dtype of the framework
            if not isinstance(old, np.ndarray) and type(new) is np.ndarray:
                new = self.to(new)
        return kind, new, same

    def something(self) -> tuple[str, Any, bool]:
        kind, make = self.random.choice(self.anything)
        return kind, make(), False


# -- verdicts -----------------------------------------------------------------


def numbers(result: Any) -> list[Any]:
    """All numbers of a result."""
    if isinstance(result, tuple | list):
        return [x for part in result for x in numbers(part)]
    if isinstance(result, ldiv.Matrix):
        return numbers(result.params)
    if isinstance(result, ldiv.GradientError):
        return numbers((result.x, result.u, result.errors))
    if is_numbers(result):
        x = host(result)
        return [x] if x.dtype.kind in "biufc" else []
    return [np.array(result)] if isinstance(result, float) else []


PROPAGATES = (
    "matmul",
    "gemm",
    "Matrix",
    "SparseArray",
    " @ ",
    " + ",
    " * ",
    " / ",
    "Tape",
    "autodiff",
    "_array",
    "asarray",
    "kron",
    "Gram",
    "LowRank",
    "Duplicated",
)
PROPAGATES += (
    "aslinearoperator",
    "find",
    "toeplitz",
    "hankel",
    "circulant",
    "convolution_matrix",
    "stack",
    "bmat",
    "block_diag",
    "tri",
    "setdiag",
    "save_npz",
    "with_data",
    "diagonal",
    "sum",
    "LinearOperator",
    "gradcheck",
    "pullback",
    "preconditioner",
    "hvp",
    "hessian",
    "jacobian",
    "jvp",
)  # of what is not finite


def made(call: Call) -> Any:
    """The call: names with a star are places, as are those before them."""
    f, args = call
    names = list(args)
    places = 1 + max((i for i, name in enumerate(names) if name.startswith("*")), default=-1)
    return f(
        *(args[name] for name in names[:places]), **{name: args[name] for name in names[places:]}
    )


def judged(label: str, call: Call, chosen: list[str], expected: list[Any] | None) -> str:
    """Return the fault, or nothing for an allowed outcome."""
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("error")
            warnings.filterwarnings(
                "ignore",
                "Sparse .* tensor support is in beta|.*nested tensors is in prototype|.*quantize|.torch.jit.script",
            )
            result = made(call)
    except (KeyboardInterrupt, SystemExit) as error:
        return f"{type(error).__name__}"
    except BaseException as error:
        return _of_error(label, error, chosen, call[1])
    found = numbers(result)
    if not any(word in label for word in PROPAGATES) and any(np.isnan(x).any() for x in found):
        return "NaN in the result"
    if expected is not None:
        if len(found) != len(expected) or any(
            x.shape != y.shape for x, y in zip(found, expected, strict=True)
        ):
            return "not the shapes of the valid call"
        if not all(
            np.allclose(x, y, rtol=1e-6, atol=1e-8) for x, y in zip(found, expected, strict=True)
        ):
            return "not the numbers of the valid call"
    return ""


def _of_error(label: str, error: BaseException, chosen: list[str], args: dict[str, Any]) -> str:
    trace = []
    at = error.__traceback__
    while at is not None:
        trace.append((at.tb_frame.f_code.co_filename, at.tb_lineno))
        at = at.tb_next
    inside = [file.startswith(SOURCE) for file, _ in trace]
    ours = inside.index(True) if True in inside else len(trace)
    if any(file == HERE for file, _ in trace[ours:]):
        return ""  # the user's own function
    if any(isinstance(args.get(name), type) for name in ("f", "matvec", "x_bar")):
        return ""  # as is a class
    words = f"{type(error).__name__}: {str(error)[:160]}"
    if (
        any(callable(args[name]) for name in chosen)
        and re.search("positional argument|takes no argument", words)
    ) or "unsupported operand" in words:
        return ""  # the words of Python itself
    if label.startswith("sparse /") and "divide by zero" in words:
        return ""  # NumPy's own warning
    if "can't allocate memory" in words:  # PyTorch's MemoryError
        return ""
    if isinstance(error, MemoryError) and "Unable to allocate" in words:
        return ""  # of NumPy, with how much
    file, line = trace[-1]
    place = f" at {Path(file).name}:{line}"
    if not isinstance(error, ValueError | TypeError):
        return f"raw {words}{place}"
    if not inside[-1] or not re.search(r"\braise\b|\binsist\(", linecache.getline(file, line)):
        return f"raw {words}{place}"
    if isinstance(error, CAUSES):
        return ""
    if any(callable(args[name]) for name in chosen):
        return ""  # which raised, or returned what it should not
    function = label.partition(",")[0].partition(" ")[0].rpartition(".")[2]
    names = [
        function,
        "arrays",
        *(name.strip("*") for name in args),
        *(word for name in args for word in SAYS_ALSO.get(name, "").split("|")),
    ]
    if not any(
        re.search(rf"(?<!\w){re.escape(name)}(?!\w)", str(error), re.IGNORECASE)
        for name in names
        if name
    ):
        return f"unnamed {words}{place}"
    return ""


# -- a batch, and many of them ------------------------------------------------


def batch(framework: str, seed: int, count: int, skip: int, say: Callable[..., None]) -> None:
    """Say what is about to be called, and what came of it; the first `skip` calls are left out."""
    if framework != "numpy":
        importlib.import_module(framework)
    warnings.filterwarnings("ignore")  # of what makes the arguments
    valid: dict[str, list[Any]] = {}
    for i, (label, (f, args), chosen, harmless) in enumerate(
        itertools.islice(Cases(framework, seed), count)
    ):
        if i < skip:
            continue
        say({"at": i, "label": label})
        limit_memory()
        name = label.partition(",")[0]
        if harmless and name not in valid:
            clean = VALID[framework][name](converter(framework))
            verdict = judged(name, clean, [], None)
            assert not verdict, f"the valid call fails: {name}: {verdict}"
            valid[name] = copy.deepcopy(numbers(made(VALID[framework][name](converter(framework)))))
        verdict = judged(label, (f, args), chosen, valid[name] if harmless else None)
        if verdict:
            say({"failed": label, "verdict": verdict})
        ldiv.set_cache_limit(1 << 24)


def limit_memory() -> None:
    """Set before each call: every program that JAX compiles takes some 60 MB of addresses, and the
    compiler aborts the process where it gets none.
    """
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, OSError):
        return  # no limit here
    soft, hard = pages * resource.getpagesize() + MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]
    soft = soft if hard == resource.RLIM_INFINITY else min(soft, hard)
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))  # the soft one, which can be raised again


def run(
    framework: str, seed: int, count: int, seconds: float = SECONDS
) -> tuple[Counter[str], list[tuple[str, str]]]:
    """Counts of calls, failures, crashes and hangs, and the failures: (label, verdict)."""
    counts: Counter[str] = Counter()
    failures: list[tuple[str, str]] = []
    for start in range(0, count, BATCH):
        size, skip = min(BATCH, count - start), 0
        while skip < size:
            lines, end = _child(framework, seed + start // BATCH, size, skip, seconds)
            last = next(
                (line for line in reversed(lines) if "at" in line), {"at": skip, "label": "start"}
            )
            failures += [(line["failed"], line["verdict"]) for line in lines if "failed" in line]
            counts["calls"] += last["at"] + 1 - skip
            skip = size if end == "" else last["at"] + 1
            if end and not lines:
                raise RuntimeError(
                    f"the adversary itself fails: {framework}, seed {seed + start // BATCH}: {end}"
                )
            if end:
                counts["crashes" if end.startswith("crash") else "hangs"] += 1
                failures.append((last["label"], end))
    counts["failures"] = len(failures)
    return counts, failures


def _child(
    framework: str, seed: int, size: int, skip: int, seconds: float
) -> tuple[list[dict[str, Any]], str]:
    command = [
        sys.executable,
        HERE,
        framework,
        "--seed",
        str(seed),
        "--count",
        str(size),
        "--skip",
        str(skip),
        "--child",
    ]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        try:
            code = subprocess.run(
                command, stdout=out, stderr=err, timeout=seconds, check=False, env=os.environ
            ).returncode
            err.seek(0)
            end = "" if code == 0 else f"crash: exit status {code}: {err.read()[-300:]}"
        except subprocess.TimeoutExpired:
            end = f"hang: more than {seconds:.0f} s"
        out.seek(0)
        return [json.loads(line) for line in out if line.endswith("\n")], end


# -- for the fuzzer: one call a case ------------------------------------------


def cases(seed: int) -> Iterator[Case]:
    """Endlessly: a call of each framework in turn."""
    for number in itertools.count(seed * 1_000_000):
        framework = FRAMEWORKS[number % len(FRAMEWORKS)]
        label, _, chosen, _ = drawn(framework, number)
        source = f"from adversarial.bad_calls import look\nlook({framework!r}, {number})  # {label}"
        yield Case(
            f"{framework}, {label.partition(',')[0]}",
            len(chosen),
            partial(look, framework, number),
            partial(str, source),
        )


def drawn(framework: str, number: int) -> tuple[str, Call, list[str], bool]:
    """The bad call of this number."""
    if framework != "numpy":
        importlib.import_module(framework)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what makes the arguments
        return next(iter(Cases(framework, number)))


def look(framework: str, number: int) -> str:
    """Raise unless the call is right, or refused as it should be."""
    label, call, chosen, harmless = drawn(framework, number)
    limit_memory()
    expected = None
    if harmless:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = copy.deepcopy(
                numbers(made(VALID[framework][label.partition(",")[0]](converter(framework))))
            )
    verdict = judged(label, call, chosen, expected)
    ldiv.set_cache_limit(1 << 24)
    if verdict:
        raise Wrong(re.sub(r"\d+", "#", verdict[:60]), f"{label}: {verdict}")
    return "harmless" if harmless else "allowed"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("framework", choices=FRAMEWORKS)
    for name, default in (("--seed", 0), ("--count", BATCH), ("--skip", 0)):
        parser.add_argument(name, type=int, default=default)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        out = os.fdopen(os.dup(1), "w", buffering=1)
        batch(
            asked.framework,
            asked.seed,
            asked.count,
            asked.skip,
            lambda line: print(json.dumps(line), file=out, flush=True),
        )
        return
    counts, failures = run(asked.framework, asked.seed, asked.count)
    for verdict, some in itertools.groupby(
        sorted(failures, key=lambda f: f[1]), key=lambda f: f[1]
    ):
        labels = [label for label, _ in some]
        print(f"{len(labels):4}  {verdict}\n        {min(labels, key=len)}")
    print(dict(counts))


if __name__ == "__main__":
    main()
