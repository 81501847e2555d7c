"""The machine, for a report of a problem: system, cores, BLAS, threads, optional
packages.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ldiv.engines.libraries.native import native, why_not

OPTIONAL = ("mkl", "pyamg", "lineax", "rich")
CALLING = (0, 10)  # the first jaxlib whose programs do, as `ldiv.frontends.jax.private` has it
LIMITS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def machine_rows() -> Iterator[tuple[str, str]]:
    """Pairs of a name and its value."""
    yield "system", f"{platform.system()} {platform.machine()}"
    yield "cores", str(os.cpu_count())
    for name in ("numpy", "scipy"):
        yield f"BLAS of {name}", _blas(name)
    yield "threads", _threads()
    limits = [f"{name}={os.environ[name]}" for name in LIMITS if name in os.environ]
    yield "limits of threads", ", ".join(limits) or "none in the environment"
    yield "ldiv._native", f"missing: {why_not}" if native is None else "compiled"
    yield "calls from JAX's programs", _calls()
    for name in OPTIONAL:
        yield name, installed(name) or "missing"


def installed(package: str) -> str | None:
    """The version of a package, which is not imported."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _calls() -> str:
    """Whether programs of JAX call compiled code without Python."""
    found = installed("jaxlib")
    if native is None or found is None:
        return "none: they take jaxlib and what is compiled of ldiv"
    if tuple(map(int, found.split(".")[:2])) < CALLING:
        return f"none: jaxlib {found} is older than {CALLING[0]}.{CALLING[1]}"
    return ", ".join(native.xla_calls())


def _blas(package: str) -> str:
    """The BLAS with which the package was built."""
    try:
        config = importlib.import_module(package).show_config(mode="dicts")
        blas = config["Build Dependencies"]["blas"]
        return f"{blas['name']} {blas['version']}"
    except (AttributeError, KeyError, TypeError):
        return "unknown"


def _threads() -> str:
    """The threads of each BLAS and OpenMP that is loaded, where threadpoolctl is installed."""
    if importlib.util.find_spec("threadpoolctl") is None:
        return "unknown: pip install threadpoolctl"
    pools: list[dict[str, Any]] = importlib.import_module("threadpoolctl").threadpool_info()
    counts = [f"{pool['internal_api']} {pool['version']}: {pool['num_threads']}" for pool in pools]
    return ", ".join(dict.fromkeys(counts)) or "no BLAS loaded"
