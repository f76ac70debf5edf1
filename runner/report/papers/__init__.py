"""What a run says of the five papers: their tables beside this run, and their conclusions."""
