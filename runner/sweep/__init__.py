"""Plans trials, builds their labs, runs them, records and resumes."""
