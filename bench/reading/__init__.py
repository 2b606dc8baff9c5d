"""Compare our readers with the formats' own libraries in shuffled reads of encoded samples."""
