"""Plan the steps of an epoch: which positions of the order each step takes, and which recipe it uses."""
