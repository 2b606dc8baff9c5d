"""Memory between pages that nobody may touch: reading or writing beside it ends the process."""

import ctypes
import mmap

import numpy as np
from numpy.typing import NDArray

_PAGE = mmap.PAGESIZE


class Guarded:
    """Room for arrays.

    Args:
        most_bytes: The longest array.
    """

    def __init__(self, most_bytes: int) -> None:
        self._room = -(-most_bytes // _PAGE) * _PAGE
        self._memory = mmap.mmap(-1, self._room + 2 * _PAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        for page in (start, start + _PAGE + self._room):
            assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(page), _PAGE, 0) == 0

    def array(self, num_bytes: int, *, at_end: bool) -> NDArray[np.uint8]:
        """An array that begins where the memory does, or ends there: uint8 [num_bytes], with what was written there before."""
        offset = _PAGE + (self._room - num_bytes if at_end else 0)
        return np.frombuffer(self._memory, np.uint8, num_bytes, offset)

    def hold(self, data: bytes, *, at_end: bool) -> NDArray[np.uint8]:
        """An array with these bytes."""
        array = self.array(len(data), at_end=at_end)
        array[:] = np.frombuffer(data, np.uint8)
        return array
