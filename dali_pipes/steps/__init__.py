"""Which positions of an epoch make a step, and with which recipe."""
