"""The command line and its live display."""
