"""Factors: the order of attempts to make them, their cache, and solves with them."""
