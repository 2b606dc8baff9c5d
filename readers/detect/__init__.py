"""What a path holds: the table of formats, how each is recognised, splits, and warnings."""
