"""gradcheck, and what it is made of."""
