"""Estimates, intervals, verdicts, ranks and weights from trials."""
