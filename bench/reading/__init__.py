"""Shuffled reads of encoded samples: our readers compared with the formats' own libraries."""
