"""Shuffled reads of encoded samples: our readers beside the own libraries of the formats."""
