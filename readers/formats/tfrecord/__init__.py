"""TFRecord shards."""

from readers.formats.tfrecord.dataset import TfRecordDataset, looks_like_tfrecord

__all__ = ["TfRecordDataset", "looks_like_tfrecord"]
