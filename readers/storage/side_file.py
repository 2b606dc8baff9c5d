"""What the binary files that readers write next to data or in the cache folder have in common.

Each format has its own first bytes and layout; all begin with numbers that have a checksum of their own, little-endian, and
hold neither code nor pickles.
"""

import os
import struct
import zlib
from typing import Any

_CRC_BYTES = 4
"""A CRC-32 finds all damage of up to 32 consecutive bits, and other damage but for one case in 4 billion."""


class DamagedFileError(ValueError):
    """A file is of another format or other data, or not as it was written; the text is a short reason."""


class CheckedStruct:
    """A struct that is followed by its CRC-32.

    Args:
        layout: Layout of the struct, as for `struct.Struct`, without the byte order.

    Attributes:
        size: Number of bytes, with the checksum.
    """

    def __init__(self, layout: str) -> None:
        self._struct = struct.Struct(f"<{layout}")
        self.size = self._struct.size + _CRC_BYTES

    def pack(self, *values: Any, seed: int = 0) -> bytes:
        """Return the bytes of values; the seed is a CRC-32 of what they belong to, which `unpack` then needs as well."""
        data = self._struct.pack(*values)
        return data + zlib.crc32(data, seed).to_bytes(_CRC_BYTES, "little")

    def unpack(self, data: bytes | memoryview, what: str, seed: int = 0) -> tuple[Any, ...]:
        """Return the values at the beginning of some bytes.

        Args:
            data: At least `size` bytes.
            what: Name of the struct, for the error.
            seed: As for `pack`.

        Raises:
            DamagedFileError: There are too few bytes, or the checksum does not match.
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
    """Read bytes at an offset of a file; fewer only where the file ends."""
    data = os.pread(descriptor, length, offset)
    while len(data) < length:
        more = os.pread(descriptor, length - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data
