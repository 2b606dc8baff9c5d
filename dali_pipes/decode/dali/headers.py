"""What the headers of JPEGs say of size and restart markers, read in compiled code."""

import numpy as np
from numpy.typing import NDArray

from dali_pipes.jpeg.header import read_size
from dali_pipes.jpeg.memory import MEMORY_BYTES, memory_at
from dali_pipes.jpeg.status import GOOD
from gpu_aug.compiled.jit import kernel, signed


def read_headers(spans: NDArray[np.int64]) -> NDArray[np.int64]:
    """Read the headers of JPEGs, without Python's lock: about 0.5 us each.

    Args:
        spans: int64 [n, 2]: address and length in bytes of each file; 0 and 0 for none.

    Returns:
        int64 [n, 3]: height and width of the upright image, and MCUs between restart markers. The last is 0 without
        restart markers and for files of several scans; all are 0 where our decoder does not take the file.
    """
    found = np.zeros((len(spans), 3), np.int64)
    _read_headers(spans, np.zeros(MEMORY_BYTES, np.uint8), found)
    return found


@kernel
def _read_headers(
    spans: NDArray[np.int64], scratch: NDArray[np.uint8], found: NDArray[np.int64]
) -> None:
    memory = memory_at(signed(scratch.ctypes.data))
    for number in range(len(spans)):
        memory.job.data, memory.job.length = spans[number, 0], spans[number, 1]
        if read_size(memory, found[number]) == GOOD:
            found[number, 2] = memory.header.restart
