"""Turn rows of raw arrays into files: pixels into PNM images, which all image decoders read, other numbers into .npy."""

import io
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import DTypeLike, NDArray

from readers.python_parser import call_parser


@dataclass(frozen=True, slots=True)
class RowFile:
    """A recipe for turning rows of an array, of one shape and dtype, into files.

    Attributes:
        field: Format of the files, which is also the name of the sample's field: "ppm" (RGB), "pgm" (grey) or "npy".
        head: Bytes of the file before the numbers of the row.
        shape: Shape of a row.
        dtype: Data type of a row.
    """

    field: str
    head: bytes
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def size(self) -> tuple[int, int] | None:
        """(height, width) if rows are images, None for "npy"."""
        return None if self.field == "npy" else (self.shape[0], self.shape[1])

    @property
    def num_bytes(self) -> int:
        """Size of a file in bytes."""
        return len(self.head) + self.dtype.itemsize * int(np.prod(self.shape, dtype=np.int64))

    def of(self, row: NDArray[Any]) -> bytes:
        """Return the bytes of the file for a row, which need not be contiguous in memory."""
        # The dtype is given again, as NumPy converts scalars to native byte order. The view is uint8, as times have no buffer.
        whole = np.ascontiguousarray(row, self.dtype).reshape(-1)
        return b"".join((self.head, whole.view(np.uint8).data))


def row_file(shape: tuple[int, ...], dtype: DTypeLike) -> RowFile:
    """Return the recipe for turning rows of one shape and dtype into files.

    Args:
        shape: Shape of a row. uint8 [H, W, 3] is an RGB image and becomes "ppm"; uint8 [H, W] and [H, W, 1] are
            grey and become "pgm"; rows of other shapes or dtypes become "npy".
        dtype: Data type of a row, which must not hold Python objects.
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
    """Return the array of a NumPy file, as a view of its bytes; `numpy.load` would allocate any size that a header claims.

    Args:
        data: The bytes of the .npy file.

    Raises:
        Exception: The file is damaged, or holds Python objects; NumPy's parser of headers raises errors of many types.
    """
    # A header of version 1.0 states its length in two bytes; NumPy refuses headers of more than 10,000 bytes.
    length = 10 + int.from_bytes(data[8:10], "little") if data[6:7] == b"\x01" else 1 << 14
    (shape, is_fortran, dtype), begin = _npy_header(bytes(data[: min(length, 1 << 14)]))
    if dtype.hasobject or min(shape, default=0) < 0:
        raise ValueError(f"an array of the shape {shape} of {dtype} is not read")
    return np.ndarray(shape, dtype, data, begin, order="F" if is_fortran else "C")


# The fields of a dataset have few different headers, and NumPy takes 15 us to parse one.
@lru_cache(maxsize=256)
def _npy_header(begin: bytes) -> tuple[Any, int]:
    """Return (shape, whether it is in Fortran order, dtype) from the beginning of a .npy file, and the offset of the numbers."""

    def parse() -> tuple[Any, int]:
        stream = io.BytesIO(begin)
        is_first = npy_format.read_magic(stream) == (1, 0)
        read = npy_format.read_array_header_1_0 if is_first else npy_format.read_array_header_2_0
        return read(stream), stream.tell()

    return call_parser(parse)
