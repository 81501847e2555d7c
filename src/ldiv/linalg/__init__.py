"""The public functions under SciPy's names, which validate, choose the structure, and call
rules.
"""

from ldiv.core.elsewhere import names_at_the_top

__getattr__ = names_at_the_top(__name__)
