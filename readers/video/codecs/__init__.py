"""Headers of coded frames, parsed without decoding."""
