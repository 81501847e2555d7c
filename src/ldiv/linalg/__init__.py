"""The public functions under SciPy's names, which validate, choose the structure, and call
rules.
"""

from ldiv.linalg.names_at_the_top import names_at_the_top

__getattr__ = names_at_the_top(__name__)
