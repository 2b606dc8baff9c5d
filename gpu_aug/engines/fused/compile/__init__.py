"""Compiling a recipe and its draws to programs: the operations of each pass, and its arguments."""
