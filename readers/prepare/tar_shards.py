"""Writing samples to a tar shard."""

import tarfile
from typing import Any, BinaryIO

from readers.prepare.contents import Contents
from readers.prepare.packer import Packed, free_key, headers_of
from readers.sample import Payload

_BLOCK_BYTES = tarfile.BLOCKSIZE
_ZEROS = bytes(_BLOCK_BYTES)
_JOINED_BYTES = 1 << 18  # pieces up to this size are written together


class TarShard:
    """A shard that is being written.

    Args:
        file: An empty file.

    Attributes:
        contents: What is noted of its samples.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.contents = file, Contents()

    def fits(self, sample: Packed, most_bytes: int) -> bool:
        """Whether the finished shard is no larger than this with one more sample, or has no other."""
        keys = self.contents.keys
        pieces = _pieces(free_key(sample.name, keys), sample)
        size_bytes = self._file.tell() + sum(map(len, pieces))
        return not keys or _finished_bytes(size_bytes) <= most_bytes

    def add(self, sample: Packed) -> None:
        """Write a sample."""
        pieces = _pieces(self.contents.add(sample), sample)
        if sum(map(len, pieces)) <= _JOINED_BYTES:
            self._file.write(b"".join(pieces))
            return
        for piece in pieces:
            self._file.write(piece)

    def close(self) -> dict[str, Any]:
        """End the shard and return what is noted of it."""
        written = self._file.tell()
        self._file.write(bytes(_finished_bytes(written) - written))
        return self.contents.noted(self._file.tell())

    def abandon(self) -> None:
        """Nothing has to be let go of."""


def _pieces(key: str, sample: Packed) -> list[Payload]:
    """Headers, contents and what fills their last blocks."""
    headers = sample.headers if key == sample.name else headers_of(key, sample.fields)
    pieces: list[Payload] = []
    for head, (_, data) in zip(headers, sample.fields, strict=True):
        pieces += [head, data, _ZEROS[: -len(data) % _BLOCK_BYTES]]
    return pieces


def _finished_bytes(size_bytes: int) -> int:
    """Size of a shard with the zeros at its end."""
    return -(-(size_bytes + 2 * _BLOCK_BYTES) // tarfile.RECORDSIZE) * tarfile.RECORDSIZE
