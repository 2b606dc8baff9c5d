"""From a recipe and its draws to programs: which operations share a pass, and what each pass does."""
