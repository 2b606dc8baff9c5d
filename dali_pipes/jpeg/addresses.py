"""Where files lie in memory, and a first look at them, in compiled code; see also ``spans.py``."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_aug.compiled.jit import kernel, load_u8


def fast_spans_of(files: Sequence[NDArray[np.uint8]]) -> NDArray[np.int64]:
    """The same as `spans_of` in a third of the time, once this is compiled."""
    spans = np.empty((len(files), 2), np.int64)
    spans[:, 0] = [address_of(file) for file in files]
    spans[:, 1] = [file.size for file in files]
    return spans


@kernel
def address_of(file: Any) -> int:
    """The address of the first byte of an array."""
    address: int = file.ctypes.data
    return address


@kernel
def begin_like_jpegs(files: Any, found: Any) -> None:
    """Write which files begin with the marker of JPEGs.

    Args:
        files: int64 [n, 2]: address and length in bytes.
        found: bool [n], written.
    """
    for number in range(len(found)):
        address = files[number, 0]
        found[number] = files[number, 1] >= 2 and load_u8(address) == 0xFF and load_u8(address + 1) == 0xD8  # fmt: skip
