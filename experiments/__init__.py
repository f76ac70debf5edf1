"""One file an experiment: its question and source, its factors and metrics."""
