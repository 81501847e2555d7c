"""What users hold in their hands: matrices, sparse arrays, operators, and what is assumed of
them.
"""
