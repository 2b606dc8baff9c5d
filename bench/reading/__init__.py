"""Shuffled reads of encoded samples: our readers beside the formats' own libraries."""
