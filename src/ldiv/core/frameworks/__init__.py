"""The contract of a front end, what it may leave out, and whose arrays came."""
