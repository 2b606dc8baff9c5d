"""Lists of short byte strings or file names, packed into NumPy arrays that processes share."""

import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Names that are decoded in one call: 0.2 us each, one by one 1.0 us. Larger blocks need more memory for their index.
_BLOCK = 1 << 12


class Packed:
    """A read-only list of byte strings in one block of memory, with 8 bytes of overhead for each.

    The strings lie in NumPy arrays, which forked processes share; a list of bytes objects would be copied into each process.

    Args:
        values: The byte strings; None for a missing value.

    Attributes:
        data: All strings, one after the other, uint8.
        ends: Offsets in `data`, int64 [n + 1]: 0, then the end of each string.
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

    def sizes(self) -> NDArray[np.int64]:
        """Return the length of each string in bytes, int64 [n]."""
        return np.diff(self.ends)

    @property
    def identity(self) -> bytes:
        """All content as bytes, for fingerprints; different lists give different bytes."""
        missing = b"" if self._missing is None else self._missing.tobytes()
        return self.ends.astype("<i8").tobytes() + missing + self.data.tobytes()


class Names(Sequence[str]):
    """A read-only sequence of file names, packed into one block of memory.

    A name is stored in the operating system's encoding, followed by a zero byte.

    One million names of 30 characters take 39 MB, which helper processes share; a list of str takes 88 MB in each process.

    Args:
        names: The file names; the iterable is read once.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._packed = Packed(map(_encode, names))

    def __len__(self) -> int:
        return len(self._packed.ends) - 1

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[number] for number in range(len(self))[index]]
        data = self._packed[range(len(self))[index]] or b"\0"
        if data[0] == 0 and len(data) > 1:
            return data[1:-1].decode("utf-8", "surrogatepass")
        return data[:-1].decode("utf-8", "surrogateescape")

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _BLOCK):
            yield from self.take(np.arange(start, min(start + _BLOCK, len(self))))

    def take(self, numbers: Sequence[int] | NDArray[np.int64]) -> list[str]:
        """Return the names with the given indices."""
        data, lengths = self._gather(np.asarray(numbers, np.int64))
        names = data.decode("utf-8", "surrogateescape").split("\0")[:-1]
        for row in np.flatnonzero(lengths == 1).tolist():
            names[row] = self[numbers[row]]
        return names

    def paths(
        self, folder: str, numbers: NDArray[np.int64]
    ) -> tuple[bytes, NDArray[np.int64], NDArray[np.bool_]]:
        """Return paths in the operating system's encoding, each followed by a zero byte.

        Args:
            folder: Path of the folder of all files, ending in a slash.
            numbers: Indices of the files, int64 [n].

        Returns:
            All paths in one bytes object; the offset of each path, int64 [n]; and bool [n], False for a path that compiled
            code cannot open, so that its bytes must not be used.
        """
        data, lengths = self._gather(numbers)
        before = _encode(folder)[:-1]
        ends = np.cumsum(lengths + len(before))
        paths = before + data[:-1].replace(b"\0", b"\0" + before) + b"\0"
        return paths, ends - lengths - len(before), (lengths > 1) & (before[0] != 0)

    def _gather(self, numbers: NDArray[np.int64]) -> tuple[bytes, NDArray[np.int64]]:
        """Return the encoded names in one bytes object, and the length of each, int64 [n].

        A name that `_encode` escapes is only a zero byte here.
        """
        data, starts = self._packed.data, self._packed.ends[numbers]
        lengths = np.where(data[starts] == 0, 1, self._packed.ends[numbers + 1] - starts)
        # NumPy indexing by byte takes half the time, but releases the interpreter lock and then waits for it.
        spans, view = zip(starts.tolist(), (starts + lengths).tolist(), strict=True), data.data
        return b"".join([view[start:stop] for start, stop in spans]), lengths


def _encode(name: str) -> bytes:
    """Encode a name for `Names`.

    The result ends with a zero byte. Compiled code cannot open a name that holds a zero byte, or whose bytes on this file
    system do not decode from UTF-8 to the name; such a name is escaped by a zero byte in front of it.
    """
    if name.isascii() and "\0" not in name:
        return name.encode() + b"\0"
    try:
        data = os.fsencode(name)
        if b"\0" not in data and data.decode("utf-8", "surrogateescape") == name:
            return data + b"\0"
    except UnicodeEncodeError:  # half of a surrogate pair, which no file name has
        pass
    return b"\0" + name.encode("utf-8", "surrogatepass") + b"\0"
