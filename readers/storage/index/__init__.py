"""The index of a shard: a side file with the keys, offsets, labels and sizes of its samples."""

from readers.storage.index.find_or_build import FoundIndex, open_index
from readers.storage.index.index_file import Entry, Remark
from readers.storage.index.scan import Scan
from readers.storage.index.shard_index import ShardIndex

__all__ = ["Entry", "FoundIndex", "Remark", "Scan", "ShardIndex", "open_index"]
