"""CRC-32C, the checksum of TFRecord files, and where in damaged bytes a record can begin."""

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from readers.sample import Payload

__all__ = ["crc32c", "find_checked_lengths", "masked"]


def masked(crc: int) -> int:
    """Return a checksum as TFRecord files store it."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFF_FFFF


def find_checked_lengths(data: Payload, most: int) -> NDArray[np.int64]:
    """Return the offsets of lengths of at most `most` with their masked checksum, int64 [offsets], increasing."""
    num_offsets = len(data) - 11
    if num_offsets <= 0:
        return np.empty(0, np.int64)
    lengths = np.ndarray((num_offsets,), "<u8", data, 0, (1,))
    stored = np.ndarray((num_offsets,), "<u4", data, 8, (1,))
    offsets = np.flatnonzero(lengths <= most)  # of random bytes hardly any
    values, which = np.unique(lengths[offsets], return_inverse=True)
    checksums = [masked(crc32c(value.tobytes())) for value in values]
    found: NDArray[np.int64] = offsets[stored[offsets] == np.array(checksums, np.uint32)[which]]
    return found
