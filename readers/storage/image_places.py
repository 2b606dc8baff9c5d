"""Where the images of many samples lie in their shards, by the tables of the shards' indexes."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from readers.located import Reads
from readers.sample import find_image, is_video_field
from readers.storage.blob.mapped import Descriptor
from readers.storage.index.index_file import PAIR, ROW, ROW_TYPE, DamagedIndexError, Names
from readers.storage.index.shard_index import ShardIndex

NO_ROW = ROW.pack(0, 0, -1, 0, 0, 0, -1)
"""In the place of the entry of a sample that cannot be looked up, as if it had a fault."""
_NO_SPAN = bytes(PAIR.size)
_NO_IMAGE = -(1 << 63)  # below any number of a member


class ShardPart(NamedTuple):
    """Some samples of one shard.

    Attributes:
        entries: Entry of each, as `ShardIndex.row_bytes` gives it, or `NO_ROW`.
        restarts: Restart intervals of each, None where the shard has none.
        tables: Index of the shard; None where none of them is located.
        address: Address of the mapped shard.
        descriptor: The open shard, None as well.
    """

    entries: Sequence[bytes | memoryview]
    restarts: Sequence[NDArray[np.int64] | None] | None = None
    tables: ShardIndex | None = None
    address: int = 0
    descriptor: Descriptor | None = None


@dataclass(frozen=True, slots=True)
class ImagePlaces:
    """Where the images of n samples lie, in the order in which these are stored.

    Attributes:
        spans: int64 [n, 2], start and stop in the shard.
        addresses: int64 [n, 2], the same in memory.
        files: int64 [n], descriptor of the shard, -1 where the sample is not located.
        labels: int64 [n], class numbers.
        sizes: int64 [n, 2], height and width, zeros where they are not known.
        is_located: bool [n].
        restarts: Restart intervals of each, None where no row has any.
        held: Keeps the descriptors open.
    """

    spans: NDArray[np.int64]
    addresses: NDArray[np.int64]
    files: NDArray[np.int64]
    labels: NDArray[np.int64]
    sizes: NDArray[np.int64]
    is_located: NDArray[np.bool_]
    restarts: list[NDArray[np.int64] | None] | None
    held: Any


def find_images(parts: Sequence[ShardPart], reads: Reads) -> ImagePlaces:
    """Look up images; those of a shard whose index is damaged are not located.

    The tables are gathered from all indexes, and then looked at together: a part may be of one sample, for which
    NumPy would take ten times as long.

    Args:
        parts: The samples.
        reads: See `IndexedDataset.locate`.
    """
    table = np.frombuffer(b"".join([entry for part in parts for entry in part.entries]), ROW_TYPE)
    firsts, kinds = table["first"].tolist(), table["kind"].tolist()
    image_of = lru_cache(maxsize=None)(partial(_image_number, reads))
    members: list[int] = []
    pieces: list[bytes | memoryview] = []
    for part in parts:
        begin, end = len(members), len(members) + len(part.entries)
        numbers = dict.fromkeys(kinds[begin:end], _NO_IMAGE)
        for kind in numbers if part.tables else ():
            if kind >= 0:
                numbers[kind] = image_of(*part.tables.head.kinds[kind][:2])  # type: ignore[union-attr]
        own = [
            first + numbers[kind]
            for first, kind in zip(firsts[begin:end], kinds[begin:end], strict=True)
        ]
        members += own
        pieces += _spans(part, own)
    spans = np.frombuffer(b"".join(pieces), np.int64).reshape(-1, 2)
    is_located = (np.array(members, np.int64) >= 0) & (spans[:, 1] > spans[:, 0])
    sizes = np.stack([table["height"], table["width"]], axis=1).astype(np.int64)
    sizes[sizes[:, 0] == 0] = 0
    counts = np.array([len(part.entries) for part in parts], np.int64)
    held = [part.descriptor for part in parts]
    numbers_of = np.array([-1 if one is None else one.number for one in held], np.int64)
    addresses = np.array([part.address for part in parts], np.int64)
    restarts = None
    if any(part.restarts for part in parts):
        by_part = [part.restarts or [None] * len(part.entries) for part in parts]
        restarts = [one for some in by_part for one in some]
    return ImagePlaces(
        spans,
        spans + np.repeat(addresses, counts)[:, None],
        np.where(is_located, np.repeat(numbers_of, counts), -1),
        table["label"],
        sizes,
        is_located,
        restarts,
        held,
    )


def _spans(part: ShardPart, members: list[int]) -> Sequence[bytes | memoryview]:
    """Start and stop of members; nothing lies between them where the index is damaged."""
    try:
        if part.tables is not None:
            return part.tables.member_bytes(members)
    except DamagedIndexError:
        pass
    return [_NO_SPAN] * len(members)


def _image_number(reads: Reads, names: Names, image_field: str | None) -> int:
    """Which of some fields is the image; far below 0 where none is, or another one of them will be read."""
    image = find_image(names, image_field)
    if image is None or is_video_field(image) or any(reads(one) for one in names if one != image):
        return _NO_IMAGE
    return names.index(image)
