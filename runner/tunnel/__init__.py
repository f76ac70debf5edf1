"""Brings a tunnel up, timed, and proves what it carries."""
