"""Policies: operations and magnitudes drawn per image from a fixed list."""
