"""Factors: who makes them, in which order, how they are found again, and solves with them."""
