"""One operation per file; each opens with its equation, tangent, cotangent and cost."""

from ldiv.core.frameworks import folders

folders.register("rule", __name__, cases=lambda structures, draw: ())
