"""What the headers of coded frames say, without decoding."""
