"""Folders of MDS shards, as mosaicml-streaming writes them."""

from readers.formats.mds.dataset import MdsDataset

__all__ = ["MdsDataset"]
