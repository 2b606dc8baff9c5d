"""Shared code for the binary side files that readers write next to the data or in the cache folder, such as indexes.

Each format has its own first bytes and layout. All begin with a struct of little-endian numbers and its checksum, and
contain neither code nor pickles.
"""

import os
import struct
import zlib
from typing import Any

_CRC_BYTES = 4
"""Size of a CRC-32, which detects all damage of up to 32 consecutive bits, and misses other damage once in 4 billion."""


class DamagedFileError(ValueError):
    """A side file is damaged, of another format, or belongs to other data; the text is a short reason."""


class CheckedStruct:
    """A little-endian struct that is followed by its CRC-32.

    Args:
        layout: Layout of the struct, as for `struct.Struct`, without the byte order.

    Attributes:
        size: Number of bytes of the struct and its checksum.
    """

    def __init__(self, layout: str) -> None:
        self._struct = struct.Struct(f"<{layout}")
        self.size = self._struct.size + _CRC_BYTES

    def pack(self, *values: Any, seed: int = 0) -> bytes:
        """Return the bytes of values, with their checksum.

        Args:
            values: Values of the struct.
            seed: Start value of the CRC-32, such as the checksum of the file that the values belong to; `unpack` needs it, too.
        """
        data = self._struct.pack(*values)
        return data + zlib.crc32(data, seed).to_bytes(_CRC_BYTES, "little")

    def unpack(self, data: bytes | memoryview, what: str, seed: int = 0) -> tuple[Any, ...]:
        """Return the values at the beginning of some bytes.

        Args:
            data: Bytes that begin with the struct.
            what: Name of the struct, for the error.
            seed: The seed that was passed to `pack`.

        Raises:
            DamagedFileError: `data` is too short, or the checksum does not match.
        """
        end = self._struct.size
        if len(data) < self.size:
            raise DamagedFileError(f"its {what} is cut off")
        if zlib.crc32(data[:end], seed) != int.from_bytes(data[end : self.size], "little"):
            raise DamagedFileError(f"its {what} is damaged")
        return self._struct.unpack_from(data)


def write_all(descriptor: int, data: bytes | bytearray | memoryview, offset: int) -> None:
    """Write all bytes at an offset of a file."""
    with memoryview(data) as view:
        while view.nbytes:
            written = os.pwrite(descriptor, view, offset)
            offset += written
            view = view[written:]


def read_all(descriptor: int, length: int, offset: int) -> bytes:
    """Return `length` bytes at an offset of a file; fewer if the file ends before."""
    data = os.pread(descriptor, length, offset)
    while len(data) < length:
        more = os.pread(descriptor, length - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data
