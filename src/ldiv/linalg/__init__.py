"""The public functions under SciPy's names, which validate, choose the structure, and call
rules.
"""
