"""What engines call in others' libraries, and the number of threads that these may use."""
