"""Other packages that solve the problems."""
