"""Shards of a stream of samples, whose boundaries are found while they are written."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from readers.jpeg_seek_points.layout import Entry
from readers.prepare.packer import Packed, Refused
from readers.prepare.parquet_shards import ParquetShard
from readers.prepare.tar_shards import TarShard
from readers.sample import BadSample
from readers.storage.atomic_file import atomic_file


class Stream:
    """Samples in order, of which the next can be looked at before it is taken.

    Args:
        samples: Begin at the position and leave none out.
        position: Position of the first one in the order.
    """

    def __init__(self, samples: Iterator[Packed | Refused], position: int) -> None:
        self._samples = samples
        self._next = next(samples, None)
        self.position = position
        self._bad: list[BadSample] = []

    def peek(self) -> Packed | None:
        """The next sample that can be packed; those before it that cannot are kept for `take_bad`."""
        while isinstance(self._next, Refused):
            self._bad.append(self._next.bad)
            self.skip()
        return self._next

    def take_bad(self) -> list[BadSample]:
        """Samples that could not be packed since the last call."""
        bad, self._bad = self._bad, []
        return bad

    def skip(self) -> None:
        """Go on to the sample behind it."""
        self._next = next(self._samples, None)
        self.position += 1


def write_tar(path: Path, stream: Stream, *, most_bytes: int) -> tuple[dict[str, Any], list[Entry]]:
    """Write samples while they fit; the shard appears when it is whole.

    Args:
        path: The name of the shard.
        stream: Where samples come from; there is one.
        most_bytes: The largest size, unless a single sample is larger.

    Returns:
        What the manifest notes of a shard, and the checkpoints of its images, where they were looked for.
    """
    begin = stream.position
    with atomic_file(path, to_disk=True) as file:
        content, checkpoints = _filled(TarShard(file), stream, most_bytes)
    return {"name": path.name, "begin": begin, "end": stream.position} | content, checkpoints


def write_parquet(
    path: Path, stream: Stream, *, most_bytes: int, class_names: Sequence[str]
) -> tuple[dict[str, Any], list[Entry]]:
    """Write samples while they fit; the shard appears when it is whole.

    Where a later sample has a field more than the first row group, the shard ends.

    Args:
        path: The name of the shard.
        stream: Where samples come from; there is one.
        most_bytes: The largest size, unless a single sample is larger.
        class_names: Name of each class number; may be empty.

    Returns:
        What the manifest notes of a shard, and the checkpoints of its images, where they were looked for.

    Raises:
        SourceError: pyarrow is not installed.
    """
    begin = stream.position
    with atomic_file(path, to_disk=True) as file:
        content, checkpoints = _filled(ParquetShard(file, class_names), stream, most_bytes)
    return {"name": path.name, "begin": begin, "end": stream.position} | content, checkpoints


def _filled(
    shard: TarShard | ParquetShard, stream: Stream, most_bytes: int
) -> tuple[dict[str, Any], list[Entry]]:
    try:
        while (sample := stream.peek()) is not None and shard.fits(sample, most_bytes):
            shard.add(sample)
            stream.skip()
        return shard.close(), shard.contents.checkpoints
    except BaseException:
        shard.abandon()
        raise
