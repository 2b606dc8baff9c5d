"""The arguments of a loader: checked, explained, and what "auto" chooses."""
