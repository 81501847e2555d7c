"""Rules, structures and trees of arrays: independent of all engines and frameworks."""
