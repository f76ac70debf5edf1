"""What a run is asked, a file or folder each: which cells go on until it has its answer, and what that is."""
