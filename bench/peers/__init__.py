"""Who else solves it."""
