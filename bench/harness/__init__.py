"""How to measure: one thread, turns, medians of ratios, tables and JSON."""
