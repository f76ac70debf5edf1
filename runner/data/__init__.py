"""What a trial, a metric, a factor's level, a run folder and an error are."""
