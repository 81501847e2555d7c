"""Quadratic programs: which rows are active, by others' solvers and by exchanges of our own."""
