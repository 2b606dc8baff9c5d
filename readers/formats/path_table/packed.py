"""Many short texts in one piece of memory."""

from collections.abc import Iterable

import numpy as np


class Packed:
    """Bytes by number, one behind the other: 8 bytes for each besides its own.

    Args:
        values: The bytes, or None for nothing.
    """

    def __init__(self, values: Iterable[bytes | None]) -> None:
        pieces: list[bytes] = []
        ends, missing = [0], []
        for value in values:
            missing.append(value is None)
            pieces.append(value or b"")
            ends.append(ends[-1] + len(pieces[-1]))
        self.data = b"".join(pieces)
        self._ends = np.array(ends, np.int64)
        self._missing = np.array(missing, bool) if any(missing) else None

    def __getitem__(self, number: int) -> bytes | None:
        if self._missing is not None and self._missing[number]:
            return None
        return self.data[self._ends[number] : self._ends[number + 1]]

    def sizes(self) -> "np.typing.NDArray[np.int64]":
        """int64 [n], the number of bytes of each."""
        return np.diff(self._ends)

    @property
    def identity(self) -> bytes:
        """Bytes that no other values have."""
        missing = b"" if self._missing is None else self._missing.tobytes()
        return self._ends.astype("<i8").tobytes() + missing + self.data
