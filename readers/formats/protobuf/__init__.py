"""Parsers of protocol buffers in records: tf.train.Example, and Caffe's Datum."""
