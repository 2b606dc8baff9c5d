"""Read single rows of an array that is stored contiguously in a file."""

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from readers.sample import PathLike
from readers.storage.blob.mapped import mapped_file
from readers.storage.blob.mmap_pages import map_file


class FileRows:
    """The rows of an array in a file; a row is read when it is accessed.

    Args:
        path: Path of the file.
        dtype: Data type of the array, which must not hold Python objects.
        offset: Offset of the array's first element in the file, in bytes.
        shape: Shape of the array, which must have at least one element.
        fortran: Whether the array is in Fortran order (the first axis varies fastest). A row is then scattered over the file,
            and gathered from the mapping: if the file shrinks at that moment, the process is killed.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file ends before the array does.
    """

    def __init__(
        self,
        path: PathLike,
        dtype: DTypeLike,
        offset: int,
        shape: tuple[int, ...],
        *,
        fortran: bool = False,
    ) -> None:
        self.shape, self.dtype = shape, np.dtype(dtype)
        view = map_file(path)
        file = mapped_file(view)
        num_bytes = self.dtype.itemsize * math.prod(shape)
        if file is None or offset + num_bytes > len(view):
            raise ValueError("the array is greater than file size")
        self._file, self._offset, self._num_bytes = file, offset, num_bytes
        self._row_bytes = num_bytes // shape[0]
        self._gathered: NDArray[Any] | None = None
        if fortran:
            self._gathered = np.ndarray(shape, self.dtype, view, offset, order="F")

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, row: int) -> NDArray[Any]:
        """Return a row, 0 <= row < len, as an array; a NumPy scalar if the array has only one axis.

        Raises:
            OSError: The file has shrunk.
        """
        if self._gathered is not None:
            self._file.check()
            return np.array(self._gathered[row])
        start = self._offset + row * self._row_bytes
        data = self._file.read(start, start + self._row_bytes)
        found: NDArray[Any] = np.frombuffer(data, self.dtype).reshape(self.shape[1:])[()]
        return found

    def whole(self) -> NDArray[Any]:
        """Return the whole array, read into memory.

        Raises:
            OSError: The file has shrunk.
        """
        data = self._file.read(self._offset, self._offset + self._num_bytes)
        found: NDArray[Any] = np.ndarray(
            self.shape, self.dtype, data, order="C" if self._gathered is None else "F"
        )
        return found
