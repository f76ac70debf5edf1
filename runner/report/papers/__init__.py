"""What a run says of the five papers: their tables beside this run, their conclusions, and docs/findings.md."""
