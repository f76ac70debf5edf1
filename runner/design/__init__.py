"""What an experiment is, and what a profile is."""
