"""The side-car index of a shard, which says where its samples lie."""

from readers.storage.index.format import DamagedIndexError, Entry
from readers.storage.index.scan import Scan
from readers.storage.index.shard_index import ShardIndex
from readers.storage.index.sidecar import FoundIndex, open_index

__all__ = ["DamagedIndexError", "Entry", "FoundIndex", "Scan", "ShardIndex", "open_index"]
