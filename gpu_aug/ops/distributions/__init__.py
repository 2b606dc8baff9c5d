"""Transforms of uniform random numbers to the distributions that operations draw from."""
