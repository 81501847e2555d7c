"""The command line, python -m ldiv."""
