"""TFRecord shards."""

from readers.tfrecord.dataset import TfRecordDataset, looks_like_tfrecord

__all__ = ["TfRecordDataset", "looks_like_tfrecord"]
