"""What a run is asked, a file or folder each: when it has its answer, and what that is."""
