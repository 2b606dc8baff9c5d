"""Pipelines of other libraries, written as their users write them."""
