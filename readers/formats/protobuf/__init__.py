"""Protocol buffers that records hold: tf.train.Example, and the Datum of Caffe."""
