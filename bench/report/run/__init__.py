"""What a log tells of a run, one section per file."""
