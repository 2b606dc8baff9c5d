"""Preparing data on many machines: a simulation of far more than are here, and what Ray costs for each shard."""
