"""Folders of MDS shards, as mosaicml-streaming writes them."""
