"""Published numbers, and the findings that runs are judged by."""
