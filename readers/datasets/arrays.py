"""Make datasets of images that are held in memory as arrays of pixels."""

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from readers.datasets.dataset import IndexedDataset
from readers.describe import describe
from readers.formats.columns import to_labels
from readers.image.raw_pixels import RowFile, row_file
from readers.labels.classes import read_classes
from readers.labels.given_labels import make_labels
from readers.labels.label_vector import Label, to_float32
from readers.sample import BadSample, ColumnName, Sample, SourceError, checked_indices

_BLOCK_BYTES = 8 << 20  # of a block, as of other formats
_HASHED_BYTES = 1 << 30  # about a second; of more pixels a part is hashed
_CHANNELS = (1, 3)
_LAYOUTS = "uint8 [N, height, width, 3], [N, height, width, 1] or [N, height, width]"
_SHORT_IMAGES = 16  # height and width from which nobody means narrow grey images


def from_arrays(
    images: Any, labels: ArrayLike | None = None, *, class_names: Sequence[str] = ()
) -> "ArrayDataset":
    """Return a dataset of images that are held in memory.

    Args:
        images: uint8 [N, H, W, 3], RGB; [N, H, W] or [N, H, W, 1], grey; or a list of N such images of any sizes. It may
            be a NumPy array or a PyTorch tensor on the CPU, also with channels first: [N, 3, H, W] or [N, 1, H, W]. If a
            shape can be read both ways, channels are last in arrays and first in tensors. Nothing is copied.
        labels: N class numbers, -1 for no label; or N names of classes, "" for no label; or vectors [N, K], such as
            several classes at once. If None, no sample has a label.
        class_names: Name of each class number. If empty, labels that are names are numbered in sorted order.

    Raises:
        SourceError: `images` or `labels` have a type or shape that is not allowed, or their lengths differ; the text
            gives the type and shape.

    Example:
        >>> images = np.zeros((10, 32, 32, 3), np.uint8)
        >>> train, val = from_arrays(images, np.arange(10) % 2, class_names=("cat", "dog")).split(8, 2)
        >>> len(train), train.classes, train[0].size
        (8, ('cat', 'dog'), (32, 32))
        >>> from_arrays(images.astype(np.float32))
        Traceback (most recent call last):
        SourceError: images=ndarray of float32 [10, 32, 32, 3] are no images...
    """
    rows = _rows_of(images)
    texts = _texts_of(labels, len(rows))
    if texts is None:
        return ArrayDataset(rows, _labels_of(labels, len(rows)), class_names)
    found = make_labels(
        texts,
        read_classes(class_names or None),
        lambda number: f"labels[{number}]",
        source="labels=",
    )
    return ArrayDataset(rows, found.table.class_numbers(), found.class_names)


class ArrayDataset(IndexedDataset):
    """A dataset of images in memory; `from_arrays` makes it.

    The pixels of a sample are handed over as an uncompressed image file, in the field ``ppm`` for RGB and ``pgm`` for
    grey. The key of a sample is its index. A helper process gets a copy of all arrays, except of a `numpy.memmap`: save
    large data as .npy and open that file.

    Args:
        images: uint8 [N, H, W, 3], [N, H, W, 1] or [N, H, W], or a list of such images.
        labels: Class numbers, int64 [N], -1 for no label; or vectors, float32 [N, K].
        class_names: Name of each class number.

    Example:
        >>> grey = [np.zeros((20, 30), np.uint8), np.zeros((40, 10), np.uint8)]
        >>> dataset = from_arrays(grey, [0, 1])
        >>> [sample.size for sample in dataset], list(dataset[0].fields)
        ([(20, 30), (40, 10)], ['pgm'])
    """

    def __init__(
        self,
        images: NDArray[np.uint8] | list[NDArray[np.uint8]],
        labels: NDArray[np.int64] | NDArray[np.float32],
        class_names: Sequence[str] = (),
    ) -> None:
        self._images, self._labels = images, labels
        self._class_names = tuple(class_names)
        self._label_shape = tuple(labels.shape[1:])

    def __len__(self) -> int:
        return len(self._images)

    @property
    def block_size(self) -> int:
        """Number of images in 8 MB; the images of a list are taken to be as large as the first."""
        return max(1, _BLOCK_BYTES // max(self._images[0].nbytes, 1))

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits over all labels and pixels; if there is more than 1 GiB of pixels, over evenly spaced images."""
        digest = hashlib.sha256(f"arrays {len(self)} {list(self.class_names)!r}\n".encode())
        vectors = self._labels.ndim == 2
        digest.update(self._labels.astype("<f4" if vectors else "<i8").tobytes())
        total = (
            self._images.nbytes
            if isinstance(self._images, np.ndarray)
            else sum(image.nbytes for image in self._images)
        )
        step = max(1, -(-total // _HASHED_BYTES))
        for number in range(0, len(self), step):
            image = self._images[number]
            digest.update(f"{list(image.shape)}\n".encode())
            digest.update(np.ascontiguousarray(image).data)
        return digest.hexdigest()[:32]

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        if name == "label" and self._labels.ndim == 2:
            return np.full(len(self), -1, np.int64)
        if name == "label":
            return self._labels.astype(np.int64)
        if isinstance(self._images, np.ndarray):
            return np.full(len(self), self._number(name, self._images[0]), np.int64)
        return np.array([self._number(name, image) for image in self._images], np.int64)

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Return samples with their pixels as image files; see `Dataset.fetch`."""
        return [self._sample(index) for index in checked_indices(indices, len(self))]

    def _sample(self, index: int) -> Sample:
        image = self._images[index]
        file = _file_of(image)
        fields = {file.field: file.of(image)}
        label: Label = self._labels[index] if self._labels.ndim == 2 else int(self._labels[index])
        return Sample(index, str(index), fields, label, file.size, image_field=file.field)

    def _number(self, name: ColumnName, image: NDArray[np.uint8]) -> int:
        by_name = {"height": image.shape[0], "width": image.shape[1]}
        return by_name[name] if name in by_name else _file_of(image).num_bytes


def _file_of(image: NDArray[np.uint8]) -> RowFile:
    return row_file(image.shape, image.dtype)


def _rows_of(images: Any) -> NDArray[np.uint8] | list[NDArray[np.uint8]]:
    """Return images with their channels last: an array [N, H, W] or [N, H, W, C], or a list of arrays.

    Raises:
        SourceError: `images` are not uint8 pixels in a known layout.
    """
    if isinstance(images, list | tuple):
        if not images:
            raise SourceError("images is empty: give at least one image")
        return [_single(image, number) for number, image in enumerate(images)]
    array = as_array(images)
    if array is None:
        raise SourceError(
            f"images={describe(images)} is no array: give {_LAYOUTS}, or a list of images"
        )
    fault = ""
    if array.ndim not in (3, 4) or array.dtype != np.uint8:
        fault = f"pixels are {_LAYOUTS}{_scaled(array)}"
    elif 0 in array.shape:
        fault = "there must be at least one image of at least one pixel"
    elif array.ndim == 3 and array.shape[2] in (3, 4) and min(array.shape[:2]) >= _SHORT_IMAGES:
        fault = "of one image give images[None]"
    elif array.ndim == 4:
        laid = channels_last(array, first=array is not images)
        if laid is not None:
            return laid
        fault = f"pixels are {_LAYOUTS}, or [N, 3, height, width]{_alpha(array)}"
    if fault:
        raise SourceError(f"images={describe(images)} are no images: {fault}")
    return array


def _single(image: Any, number: int) -> NDArray[np.uint8]:
    array = as_array(image)
    if array is not None and array.dtype == np.uint8 and array.size:
        if array.ndim == 2:
            return array
        laid = channels_last(array, first=array is not image) if array.ndim == 3 else None
        if laid is not None:
            return laid
    advice = "" if array is None else _scaled(array)
    raise SourceError(
        f"images[{number}]={describe(image)} is no image: pixels are uint8 [height, width, 3], [height, width, 1] or "
        f"[height, width]{advice}"
    )


def channels_last(array: NDArray[Any], *, first: bool) -> NDArray[Any] | None:
    """Return a view of images with the channels last, [..., H, W, C]; None if no axis can be the channels.

    Args:
        array: [..., H, W, C] or [..., C, H, W]; the axis of the channels is the one with 1 or 3 entries.
        first: Whether the channels come first if both axes have 1 or 3 entries.
    """
    leads, ends = array.shape[-3] in _CHANNELS, array.shape[-1] in _CHANNELS
    if leads and (first or not ends):
        return np.moveaxis(array, -3, -1)
    return array if ends else None


def as_array(value: Any) -> NDArray[Any] | None:
    """Return a NumPy array unchanged, a PyTorch tensor as an array that shares its memory, and None for anything else.

    Raises:
        SourceError: The tensor is not in CPU memory, or has a dtype that NumPy lacks.
    """
    if isinstance(value, np.ndarray):
        return value
    if not callable(getattr(value, "numpy", None)) or not hasattr(value, "dtype"):
        return None
    try:
        plain = value.detach() if hasattr(value, "detach") else value
        array = plain.numpy()
    except (TypeError, RuntimeError) as error:
        raise SourceError(
            f"{describe(value)} cannot be taken ({str(error).partition(chr(10))[0]}): give a tensor on the CPU, as by "
            "images.cpu()"
        ) from None
    return array if isinstance(array, np.ndarray) else None


def _texts_of(labels: Any, count: int) -> list[str] | None:
    """Return labels that are names of classes as a list; None if they are no names, or not one for each image."""
    if not isinstance(labels, list | tuple) and not (
        isinstance(labels, np.ndarray) and labels.ndim == 1
    ):
        return None
    texts = list(labels)
    is_text = len(texts) == count and all(isinstance(one, str) for one in texts)
    return [str(one) for one in texts] if is_text else None


def _labels_of(labels: Any, count: int) -> NDArray[np.int64] | NDArray[np.float32]:
    if labels is None:
        return np.full(count, -1, np.int64)
    found = as_array(labels)
    try:
        array = np.asarray(labels) if found is None else found
    except ValueError:  # lists of unequal lengths
        array = np.empty(0, object)
    if array.dtype.kind in "iubf" and array.ndim == 2 and len(array) == count and array.shape[1]:
        try:
            return to_float32(array)
        except ValueError as error:
            raise SourceError(f"labels={describe(labels)}: {error}") from None
    if array.dtype.kind not in "iub" or array.shape != (count,):
        raise SourceError(
            f"labels={describe(labels)} do not fit: give one whole number for each of the {count} images, -1 for none, "
            f"or vectors [{count}, K], or names of classes, as dataset.with_labels(labels) takes them"
        )
    if array.size and (int(array.min()) < -1 or int(array.max()) >= 1 << 63):
        raise SourceError(
            f"labels={describe(labels)} hold {int(array.min())} to {int(array.max())}: class numbers are from 0 to "
            "2**63 - 1, and -1 for none"
        )
    return to_labels(array)


def _scaled(array: NDArray[Any]) -> str:
    if array.dtype.kind == "f":
        return "; of values from 0 to 1 give (images * 255).round().astype(np.uint8)"
    return "" if array.dtype == np.uint8 else "; convert them to uint8 from 0 to 255"


def _alpha(array: NDArray[Any]) -> str:
    return "; of RGBA give images[..., :3]" if array.shape[-1] == 4 else ""
