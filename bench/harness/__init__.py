"""The harness of measurements: one thread, turns, medians of ratios, tables and JSON."""
