"""What a run answers, a file or folder each."""
