"""ldiv: linear algebra with derivatives. SciPy's names, your own arrays, derivatives at the cost
of one more solve.

A public name is imported from its home, which `__init__.pyi` says, when it is first asked for: most
programs need half of the modules.
"""

import ast
import pkgutil
from typing import Any

import ldiv.engines.direct
import ldiv.engines.eigen
import ldiv.engines.iterative
import ldiv.engines.libraries.native
import ldiv.engines.preconditioners
import ldiv.frontends
import ldiv.linalg  # noqa: F401  (where people look for names)
from ldiv.core.frameworks.dispatch import frontend_named
from ldiv.core.owners.forking import import_module

__version__ = "0.2.0"

_HOMES = {
    alias.name: node.module
    for node in ast.parse(pkgutil.get_data(__name__, "__init__.pyi") or "").body
    if isinstance(node, ast.ImportFrom) and node.module
    for alias in node.names
}
__all__ = sorted(_HOMES.keys() - {"errors", "nn"})


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    """A public name, from now on without a detour; what to write for a name of SciPy, NumPy or
    PyTorch that is not here, or for one that is misspelled.
    """
    if (home := _HOMES.get(name)) is None:
        from ldiv.linalg.absent import sentence  # once a name is missed

        why = sentence(name, __all__)
        raise AttributeError(f"module 'ldiv' has no attribute {name!r}" + f". {why}" * bool(why))
    if home == __name__:
        return import_module(f"ldiv.{name}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


if frontend_named("jax"):  # programs that were exported may run without another call of ldiv
    import_module("ldiv.matrices.sparse_array")  # which they may have as arguments
