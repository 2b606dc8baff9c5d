"""TFRecord shards."""
