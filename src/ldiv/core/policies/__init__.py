"""Policies of a failed check: an error, a warning, or NaN in the refused batch members."""
