"""Functions that turn uniform random numbers into the distributions that operations draw from."""
