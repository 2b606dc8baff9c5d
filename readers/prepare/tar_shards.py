"""Write samples to a tar shard."""

import tarfile
from typing import Any, BinaryIO

from readers.prepare.contents import Contents
from readers.prepare.packer import Packed, free_key, headers_of
from readers.sample import Payload

_BLOCK_BYTES = tarfile.BLOCKSIZE
_ZEROS = bytes(_BLOCK_BYTES)
# Pieces up to this size in total are joined and written by one system call; larger ones are not worth the copy.
_JOINED_BYTES = 1 << 18


class TarShard:
    """A tar shard that is being written; implements `readers.prepare.contents.Shard`.

    Args:
        file: The file to write to, empty and open.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.contents = file, Contents()

    def fits(self, sample: Packed, most_bytes: int) -> bool:
        """Return whether the finished tar has at most `most_bytes` with one more sample; an empty shard takes any sample."""
        keys = self.contents.keys
        pieces = _pieces(free_key(sample.name, keys), sample)
        size_bytes = self._file.tell() + sum(map(len, pieces))
        return not keys or _finished_bytes(size_bytes) <= most_bytes

    def add(self, sample: Packed) -> None:
        pieces = _pieces(self.contents.add(sample), sample)
        if sum(map(len, pieces)) <= _JOINED_BYTES:
            self._file.write(b"".join(pieces))
            return
        for piece in pieces:
            self._file.write(piece)

    def close(self) -> dict[str, Any]:
        written = self._file.tell()
        self._file.write(bytes(_finished_bytes(written) - written))
        return self.contents.noted(self._file.tell())

    def abandon(self) -> None:
        """Do nothing: a tar holds no resource."""


def _pieces(key: str, sample: Packed) -> list[Payload]:
    """Return the bytes of a sample in a tar, in pieces: for each field its header, its content, and zeros up to the next block."""
    headers = sample.headers if key == sample.name else headers_of(key, sample.fields)
    pieces: list[Payload] = []
    for head, (_, data) in zip(headers, sample.fields, strict=True):
        pieces += [head, data, _ZEROS[: -len(data) % _BLOCK_BYTES]]
    return pieces


def _finished_bytes(size_bytes: int) -> int:
    """Return the size of a tar in bytes with the zeros that end it, given the size of its members."""
    return -(-(size_bytes + 2 * _BLOCK_BYTES) // tarfile.RECORDSIZE) * tarfile.RECORDSIZE
