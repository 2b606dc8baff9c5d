"""Rows of raw arrays as files: pixels as PNM, which all image decoders read, other numbers as .npy."""

import io
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import DTypeLike, NDArray

from readers.python_parser import call_parser


@dataclass(frozen=True, slots=True)
class RowFile:
    """The file format for one row of an array.

    Attributes:
        field: Name of the sample's field: "ppm" (RGB), "pgm" (grey) or "npy".
        head: Bytes before the row.
        shape: Shape of the row.
        dtype: Data type of the row.
    """

    field: str
    head: bytes
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def size(self) -> tuple[int, int] | None:
        """(height, width) of an image, None for other arrays."""
        return None if self.field == "npy" else (self.shape[0], self.shape[1])

    @property
    def num_bytes(self) -> int:
        """Length of the file."""
        return len(self.head) + self.dtype.itemsize * int(np.prod(self.shape, dtype=np.int64))

    def of(self, row: NDArray[Any]) -> bytes:
        """Return the file of a row, which need not be contiguous."""
        # The data type again, since NumPy converts single numbers to native byte order. uint8, since times have no buffers.
        whole = np.ascontiguousarray(row, self.dtype).reshape(-1)
        return b"".join((self.head, whole.view(np.uint8).data))


def row_file(shape: tuple[int, ...], dtype: DTypeLike) -> RowFile:
    """Return the file format for rows of one shape and type.

    Args:
        shape: Shape of a row. uint8 [H, W, 3] is an RGB image and becomes "ppm"; uint8 [H, W] and [H, W, 1] are
            grey and become "pgm"; all others become "npy".
        dtype: Data type of a row; no Python objects.
    """
    dtype = np.dtype(dtype)
    grey = len(shape) == 2 or shape[2:] == (1,)
    if dtype == np.uint8 and min(shape, default=0) > 0 and (grey or shape[2:] == (3,)):
        field, kind = ("pgm", 5) if grey else ("ppm", 6)
        return RowFile(field, b"P%d\n%d %d\n255\n" % (kind, shape[1], shape[0]), shape, dtype)
    stream = io.BytesIO()
    description = np.lib.format.dtype_to_descr(dtype)
    np.lib.format.write_array_header_1_0(
        stream, {"descr": description, "fortran_order": False, "shape": shape}
    )
    return RowFile("npy", stream.getvalue(), shape, dtype)


def read_npy(data: bytes | memoryview) -> NDArray[Any]:
    """Return the array of a NumPy file, which shares its bytes; `numpy.load` would allocate any size in the header.

    Raises:
        Exception: It is damaged, or of Python objects; NumPy's parser of headers raises errors of many kinds.
    """
    (shape, is_fortran, dtype), begin = call_parser(lambda: _npy_header(data))
    if dtype.hasobject or min(shape, default=0) < 0:
        raise ValueError(f"an array of the shape {shape} of {dtype} is not read")
    return np.ndarray(shape, dtype, data, begin, order="F" if is_fortran else "C")


def _npy_header(data: bytes | memoryview) -> tuple[Any, int]:
    """Return (shape, is Fortran's order, data type), and the offset of the numbers."""
    stream = io.BytesIO(data[: 1 << 14])  # NumPy refuses headers of more than 10,000 bytes
    is_first = npy_format.read_magic(stream) == (1, 0)
    read_header = npy_format.read_array_header_1_0 if is_first else npy_format.read_array_header_2_0
    return read_header(stream), stream.tell()
