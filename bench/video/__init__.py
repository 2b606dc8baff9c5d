"""Clips in the commands: which they are, who races with them, and how they are drawn."""
