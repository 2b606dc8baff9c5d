"""Parse headers of coded frames without decoding them."""
