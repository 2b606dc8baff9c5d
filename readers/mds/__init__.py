"""Folders of MDS shards, as mosaicml-streaming writes them."""

from readers.mds.dataset import MdsDataset

__all__ = ["MdsDataset"]
