"""The positions of an epoch that make each step, and the recipe of each step."""
