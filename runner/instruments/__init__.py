"""Measure something in a tunnel or of a plugin: one file an instrument."""
