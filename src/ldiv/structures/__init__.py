"""One structure per file, found by folder scan; `cases` are its arguments in the suite of laws."""

from ldiv.core.frameworks import folders
from ldiv.core.rules.structure import Structure

folders.register("structure", __name__, cases=lambda draw: ())

__all__: list[str] = []
for _module in folders.plugins("structure"):
    for _name, _value in vars(_module).items():
        if (
            isinstance(_value, type)
            and issubclass(_value, Structure)
            and _value.__module__ == _module.__name__
        ):
            globals()[_name] = _value
            __all__.append(_name)
