"""One short file per experiment: its question, its factors, its metrics, and the study it comes from."""
