"""Datasets of the rows of a NumPy array in a .npy file."""

import math
from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from readers.datasets.dataset import IndexedDataset
from readers.fingerprint import fingerprint_of
from readers.formats.columns import to_label, to_labels
from readers.image.raw_pixels import RowFile, row_file
from readers.python_parser import call_parser
from readers.sample import BadSample, ColumnName, PathLike, Sample, SourceError, checked_indices
from readers.storage.blob import open_blob
from readers.storage.blob.content_hash import pin_content
from readers.storage.blob.rows import FileRows
from readers.storage.limits import TooLargeError, check_bytes
from readers.storage.unreadable import is_transient, oserror_as_source_error, reason_of
from readers.storage.whole_files import read_head

_BLOCK_BYTES = (
    8 << 20
)  # not `readers.datasets.parts.BLOCK_BYTES`: the block shuffle of existing runs depends on it
_LEAST_OF_ONE = (
    16  # from this height and width on, an array is one image rather than many narrow grey ones
)


class NpyDataset(IndexedDataset):
    """Uncompressed images, the rows of one array.

    A row of uint8 [N, H, W, 3] is an RGB image and becomes a PPM file in the field ``ppm``. A row of uint8 [N, H, W] or
    [N, H, W, 1] is a grey image and becomes a PGM file in the field ``pgm``.

    Rows that the file loses because it is shortened in place become BadSamples. See `FileRows` for Fortran order.

    Args:
        path: Path of the .npy file, in C or Fortran order.
        labels: Path of a .npy file of N integers, the class numbers. If None, these names are tried in turn in the folder of
            the array: ``<stem>_labels.npy``, the stem with ``images`` replaced by ``labels``, and ``labels.npy``. If False,
            there are no labels.

    Raises:
        SourceError: A file is missing, truncated, empty, a .npz, or holds Python objects; the rows are no images;
            or the labels are not N integers.
    """

    def __init__(self, path: PathLike, *, labels: PathLike | Literal[False] | None = None) -> None:
        self._path = Path(path).absolute()
        self._labels_path = _find_labels(self._path, labels)
        self._rows = _find_rows(self._path)
        self._row_file = _image_file(self._rows, self._path)
        try:
            check_bytes(self._row_file.num_bytes, "a row")
        except TooLargeError as error:
            raise SourceError(f"{self._path}: {error}") from None
        self._labels: NDArray[Any] | None = None
        if self._labels_path:
            self._labels = _read_labels(self._labels_path, len(self._rows), self._path)
        count = (self._marked_labels() == -1).sum()
        self.unlabelled = int(count), (), ""

    def __reduce__(self) -> tuple[partial[Self], tuple[Path]]:
        """Pickle the paths; the process that unpickles opens the files again."""
        return partial(type(self), labels=self._labels_path or False), (self._path,)

    def __len__(self) -> int:
        return len(self._rows)

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits, a hash of the array file's name and content (by `pin_content`) and of the labels."""
        with oserror_as_source_error(str(self._path)):
            content = pin_content(open_blob(self._path))
        return fingerprint_of(f"{self._path.name!r} {content}\n", self._marked_labels().tobytes())

    @property
    def block_size(self) -> int:
        """Number of rows in about 8 MB."""
        return max(1, _BLOCK_BYTES // self._row_file.num_bytes)

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        """Return a column; sizes are those of the rows, and equal for all samples."""
        if name == "label":
            return self._readable(self._marked_labels())
        height, width = self._row_file.size or (0, 0)
        values = {"height": height, "width": width, "num_bytes": self._row_file.num_bytes}
        return np.full(len(self), values[name], np.int64)

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Return samples; see `Dataset.fetch`."""
        return [self._sample(index) for index in checked_indices(indices, len(self._rows))]

    def _marked_labels(self) -> NDArray[np.int64]:
        """Return the labels of all rows, with `readers.formats.columns.UNREADABLE` for an invalid one."""
        if self._labels is None:
            return np.full(len(self), -1, np.int64)
        return to_labels(self._labels)

    def _sample(self, index: int) -> Sample | BadSample:
        file, key = self._row_file, f"{self._path.name}/{index}"
        try:
            label = -1 if self._labels is None else to_label(self._labels[index].item())
        except ValueError as error:
            return BadSample(index, key, "read", str(error))
        try:
            fields = {file.field: file.of(self._rows[index])}
        except OSError as error:
            reason = f"the file cannot be read: {reason_of(error)}"
            return BadSample(index, key, "read", reason, transient=is_transient(error))
        return Sample(index, key, fields, label, file.size, image_field=file.field)


def _find_labels(path: Path, labels: PathLike | Literal[False] | None) -> Path | None:
    if labels is False:
        return None
    if labels is not None:
        return Path(labels).absolute()
    stems = (f"{path.stem}_labels", path.stem.replace("images", "labels"), "labels")
    paths = [path.with_name(f"{stem}.npy") for stem in stems]
    return next((other for other in paths if other != path and other.is_file()), None)


def _find_rows(path: Path) -> FileRows:
    """Return the memory-mapped rows of a .npy file.

    Raises:
        SourceError: The file cannot be read, or its array has no rows.
    """
    if path.suffix.lower() == ".npz" or read_head(path, 4) == b"PK\x03\x04":
        raise SourceError(f"{path} is a .npz archive: save its array with np.save")
    try:
        # This reads only the file's header.
        array = call_parser(lambda: np.load(path, mmap_mode="r", allow_pickle=False))
        if array.size and array.ndim:
            fortran = not array.flags.c_contiguous
            return FileRows(path, array.dtype, array.offset, array.shape, fortran=fortran)
    except Exception as error:  # noqa: BLE001, whatever Python's own parser makes of a damaged header
        raise SourceError(f"{path} {_refusal(path, error)}") from None
    raise SourceError(
        f"{path} holds an array of the shape {array.shape}: it must have one row at least"
    )


def _image_file(rows: FileRows, path: Path) -> RowFile:
    """Return the converter of rows to image files that fits the array's dtype and shape.

    Raises:
        SourceError: The rows are no images.
    """
    shape, dtype = list(rows.shape), rows.dtype
    # A single image [H, W, 3] would otherwise be read as H grey images of 3 columns.
    is_one = len(shape) == 3 and shape[2] in (3, 4) and min(shape[:2]) >= _LEAST_OF_ONE
    if dtype == np.uint8 and len(shape) in (3, 4) and not is_one:
        found = row_file(rows.shape[1:], dtype)
        if found.size is not None:
            return found
    advice = "pixels are uint8 [N, height, width, 3], [N, height, width, 1] or [N, height, width]"
    if is_one:
        advice = f"one image is [1, {', '.join(map(str, shape))}], save image[np.newaxis]"
    elif len(shape) == 4 and shape[1] in (1, 3) and dtype == np.uint8:
        advice = "channels come last, save array.transpose(0, 2, 3, 1)"
    elif len(shape) == 4 and shape[3] == 4 and dtype == np.uint8:
        advice = "of RGBA save array[..., :3]"
    elif dtype.kind == "f" and len(shape) in (3, 4):
        advice = f"{advice}: of values from 0 to 1 save (array * 255).round().astype(np.uint8)"
    raise SourceError(f"{path} holds {dtype.str} {shape}, which are no images: {advice}")


def _refusal(path: Path, error: Exception) -> str:
    if not path.is_file():
        return "is not a file: give a .npy file"
    text = str(error)
    if "Python objects" in text:
        return (
            "holds Python objects, which are pickled and may run any code when they are read: "
            "save numbers of one type and shape"
        )
    if "greater than file size" in text:
        return f"is cut off at byte {path.stat().st_size}: write it again"
    return f"is no .npy file that can be read ({text}): save the array with np.save"


def _read_labels(path: Path, num_rows: int, images: Path) -> NDArray[Any]:
    rows = _find_rows(path)
    num_labels = math.prod(rows.shape)
    if rows.dtype.kind not in "iub" or num_labels != len(rows) or len(rows) != num_rows:
        raise SourceError(
            f"the labels in {path} must be {num_rows} whole numbers as {images.name} has rows, got "
            f"{rows.dtype} {list(rows.shape)}: name the right file with labels=, or labels=False"
        )
    return rows.whole().reshape(-1)
