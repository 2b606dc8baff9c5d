"""ArrayRecord files, with random access."""
