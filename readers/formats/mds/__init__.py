"""Folders of MDS shards, the format of mosaicml-streaming."""
