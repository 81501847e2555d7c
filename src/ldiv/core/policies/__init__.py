"""What a failed look does: raises, warns, or gives NaN in the members that are refused."""
