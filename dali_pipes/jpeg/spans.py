"""Where files lie in memory, for compiled code."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def spans_of(files: Sequence[NDArray[np.uint8]]) -> NDArray[np.int64]:
    """Return address and length in bytes of each file, int64 [n, 2]; whoever reads there keeps the files.

    Args:
        files: uint8 [num_bytes] each.
    """
    # Half as long as by `ctypes`.
    found = [(file.__array_interface__["data"][0], file.size) for file in files]
    return np.array(found, np.int64).reshape(-1, 2)
