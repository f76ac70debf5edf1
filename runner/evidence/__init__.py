"""Reads a run by cell, metric and round; estimates and intervals."""
