"""ArrayRecord files, read at random."""
