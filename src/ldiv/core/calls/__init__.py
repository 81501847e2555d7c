"""Public functions and their calls: decisions that do not depend on the numbers are made once."""
