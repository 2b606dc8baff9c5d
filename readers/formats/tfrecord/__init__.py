"""TFRecord shards of tf.train.Examples or other records."""
