"""One structure per file; each also says, in `cases`, what the conformance suite runs it on. All
are found by folder scan.
"""

from ldiv.core import folders
from ldiv.core.structure import Structure

folders.register("structure", __name__, cases=lambda draw: ())

__all__: list[str] = []
for _module in folders.modules("structure"):
    for _name, _value in vars(_module).items():
        if (
            isinstance(_value, type)
            and issubclass(_value, Structure)
            and _value.__module__ == _module.__name__
        ):
            globals()[_name] = _value
            __all__.append(_name)
