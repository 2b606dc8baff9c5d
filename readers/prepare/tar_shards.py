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
    """A tar that is being written; see `readers.prepare.contents.Shard`.

    Args:
        file: An empty file.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.contents = file, Contents()

    def fits(self, sample: Packed, most_bytes: int) -> bool:
        """Return whether a sample fits into the finished tar."""
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
    """Return headers and fields, with the zeros that fill their last blocks."""
    headers = sample.headers if key == sample.name else headers_of(key, sample.fields)
    pieces: list[Payload] = []
    for head, (_, data) in zip(headers, sample.fields, strict=True):
        pieces += [head, data, _ZEROS[: -len(data) % _BLOCK_BYTES]]
    return pieces


def _finished_bytes(size_bytes: int) -> int:
    """Return the size of a tar with the zeros at its end."""
    return -(-(size_bytes + 2 * _BLOCK_BYTES) // tarfile.RECORDSIZE) * tarfile.RECORDSIZE
