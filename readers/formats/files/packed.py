"""Many short texts in one piece of memory."""

from array import array
from collections.abc import Iterable

import numpy as np


class Packed:
    """Bytes by number, one behind the other: 8 bytes for each besides its own.

    All are in two NumPy arrays, which processes share; of lists and bytes each helper process has a copy.

    Args:
        values: The bytes, or None for nothing.

    Attributes:
        data: uint8, all bytes.
        ends: int64 [n + 1], a zero and where each ends in `data`.
    """

    def __init__(self, values: Iterable[bytes | None]) -> None:
        data, missing, ends = bytearray(), bytearray(), array("q", [0])
        for value in values:
            missing.append(value is None)
            data += value or b""
            ends.append(len(data))
        self.data = np.frombuffer(data, np.uint8)
        self.ends = np.frombuffer(ends, np.int64)
        self._missing = np.frombuffer(missing, bool) if any(missing) else None

    def __getitem__(self, number: int) -> bytes | None:
        if self._missing is not None and self._missing[number]:
            return None
        start, end = self.ends[number : number + 2].tolist()
        return self.data[start:end].tobytes()

    def sizes(self) -> "np.typing.NDArray[np.int64]":
        """int64 [n], the number of bytes of each."""
        return np.diff(self.ends)

    @property
    def identity(self) -> bytes:
        """Bytes that no other values have."""
        missing = b"" if self._missing is None else self._missing.tobytes()
        return self.ends.astype("<i8").tobytes() + missing + self.data.tobytes()
