"""Plays a request: here, in a guest kernel, or on a farm."""
