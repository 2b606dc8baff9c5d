"""Checksums of TFRecord files (CRC-32C), and the search for records in damaged bytes."""

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from readers.sample import Payload

__all__ = ["crc32c", "find_checked_lengths", "masked"]


def masked(crc: int) -> int:
    """Return the masked form of a CRC-32C, in which TFRecord files store it."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFF_FFFF


def find_checked_lengths(data: Payload, most: int) -> NDArray[np.int64]:
    """Return the offsets in `data` at which a record may begin, int64 [n], ascending.

    At such an offset stands a length of at most `most` bytes, followed by the length's correct checksum.
    """
    num_offsets = len(data) - 11
    if num_offsets <= 0:
        return np.empty(0, np.int64)
    lengths = np.ndarray((num_offsets,), "<u8", data, 0, (1,))
    stored = np.ndarray((num_offsets,), "<u4", data, 8, (1,))
    offsets = np.flatnonzero(lengths <= most)  # hardly any offset in random bytes passes this test
    values, which = np.unique(lengths[offsets], return_inverse=True)
    checksums = [masked(crc32c(value.tobytes())) for value in values]
    found: NDArray[np.int64] = offsets[stored[offsets] == np.array(checksums, np.uint32)[which]]
    return found
