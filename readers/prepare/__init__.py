"""Preparing data for training: inspect it, index it, pack it into shards, add restart markers to its JPEGs.

Each function does all of the work, reports progress through `on_progress`, and returns the result::

    from readers.prepare import index, inspect, pack

    print(inspect("photos").labels)
    packed = pack("photos", "shards", shuffle=0)
    index("shards")

Nothing is decoded here: where pixels matter, a decoding function is passed in.
"""

from readers.prepare.checks import Checks
from readers.prepare.errors import PrepareError
from readers.prepare.indexing import Indexing, index
from readers.prepare.inspection import Inspection, inspect
from readers.prepare.packing import Packing, pack
from readers.prepare.tiling import Tiling, tile

__all__ = [
    "Checks",
    "Indexing",
    "Inspection",
    "Packing",
    "PrepareError",
    "Tiling",
    "index",
    "inspect",
    "pack",
    "tile",
]
