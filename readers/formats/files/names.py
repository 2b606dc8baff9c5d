"""Names of many files in one piece of memory."""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from readers.formats.files.packed import Packed

# Names that are decoded in one call: 0.2 us each, one by one 1.0. In larger blocks their index takes more memory.
_BLOCK = 1 << 12


class Names(Sequence[str]):
    """Names of files as the operating system has them, one behind the other, each followed by a zero byte.

    One million names of 30 characters take 39 MB, which helper processes share; a list of str takes 88 MB in each process.

    Args:
        names: Any str; read once, one at a time.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._packed = Packed(map(_encode, names))

    def __len__(self) -> int:
        return len(self._packed.ends) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
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
        """Return some names, by their numbers."""
        data, ends = self._gather(np.asarray(numbers, np.int64))
        names = data.decode("utf-8", "surrogateescape").split("\0")[:-1]
        for place in np.flatnonzero(np.diff(ends, prepend=0) == 1).tolist():
            names[place] = self[numbers[place]]
        return names

    def paths(
        self, folder: str, numbers: NDArray[np.int64]
    ) -> tuple[bytes, NDArray[np.int64], NDArray[np.bool_]]:
        """Return paths as the operating system has them, each followed by a zero byte.

        Args:
            folder: The folder of all, which ends in a slash.
            numbers: int64 [n], the files.

        Returns:
            The paths; int64 [n], where each begins; and bool [n], False for what is no path that a file can have.
        """
        data, ends = self._gather(numbers)
        before = _encode(folder)[:-1]
        paths = before + data[:-1].replace(b"\0", b"\0" + before) + b"\0"
        lengths = np.diff(ends, prepend=0)
        path_starts = ends - lengths + len(before) * np.arange(len(numbers))
        return paths, path_starts, (lengths > 1) & (before[0] != 0)

    def _gather(self, numbers: NDArray[np.int64]) -> tuple[bytes, NDArray[np.int64]]:
        """Return some names and where each ends; of those behind a zero byte that byte alone."""
        data, starts = self._packed.data, self._packed.ends[numbers]
        lengths = np.where(data[starts] == 0, 1, self._packed.ends[numbers + 1] - starts)
        ends = np.cumsum(lengths)
        # By one index for each byte: 0.2 us per name, by a slice for each name 0.4.
        places = np.repeat(starts - ends + lengths, lengths) + np.arange(lengths.sum())
        return data[places].tobytes(), ends


def _encode(name: str) -> bytes:
    """Encode a name for `Names`.

    A name that holds a zero byte, or whose bytes on this file system are not the UTF-8 that gives it back, is no path for
    compiled code: it is written behind a zero byte.
    """
    if name.isascii() and "\0" not in name:
        return name.encode() + b"\0"
    try:
        data = os.fsencode(name)
        if b"\0" not in data and data.decode("utf-8", "surrogateescape") == name:
            return data + b"\0"
    except UnicodeEncodeError:  # half of a surrogate pair, which no file's name has
        pass
    return b"\0" + name.encode("utf-8", "surrogatepass") + b"\0"
