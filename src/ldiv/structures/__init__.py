"""One structure per file; each also says, in `cases`, what the conformance suite runs it on. All are found by folder scan."""

import importlib
import pkgutil

from ldiv.core.structure import Structure

__all__: list[str] = []
for _found in pkgutil.iter_modules(__path__):
    _module = importlib.import_module(f"{__name__}.{_found.name}")
    for _name, _value in vars(_module).items():
        if isinstance(_value, type) and issubclass(_value, Structure) and _value.__module__ == _module.__name__:
            globals()[_name] = _value
            __all__.append(_name)
