"""Samples of a dataset, and the errors it raises.

ReadersError
├── SourceError      the data is missing, empty, ambiguous or of no known kind
├── SelectionError   a selection, mixture or split that cannot be made
├── IndexFileError   the side-car index of a shard can be kept nowhere
└── HeaderError      the bytes of one sample do not begin like an image
"""

import operator
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from readers.describe import describe
from readers.labels.label_vector import Label, same_label

PathLike = str | os.PathLike[str]

IMAGE_FIELDS = ("jpg", "jpeg", "png", "webp", "bmp", "tif", "tiff", "gif", "ppm", "pgm")
"""File extensions, in lower case and without the dot, that say "this is an image"."""

VIDEO_FIELDS = (
    *("mp4", "webm", "avi", "mkv", "mov", "m4v"),
    *("mpg", "mpeg", "mts", "m2ts", "wmv", "flv", "ogv", "3gp"),
)
"""File extensions, in lower case and without the dot, that say "this is a video".

``ts`` is none of them: as a field it is a time stamp more often. Name such files .mts.
"""

_VIDEO_NAME = "video"  # what columns of tables are called
_MASK = re.compile(r"(?:mask|seg)(?:\.([0-9]{1,9}))?\.(?:png|gif|bmp|tiff?)")
MASK_VALUES = "mask_values.json"
"""Field that says what the values of a sample's masks mean; see `readers.formats.mask_folder`."""

ColumnName = Literal["label", "height", "width", "num_bytes"]
COLUMNS: tuple[ColumnName, ...] = ("label", "height", "width", "num_bytes")
"""The numbers that every dataset can tell of its samples; see `readers.datasets.dataset.IndexedDataset.column`."""

FieldTypes = Mapping[str, tuple[str, tuple[int, ...]]]
"""By name, fields that hold NumPy files of one type and shape in all samples: NumPy's name of the type, and the shape."""

Payload = bytes | memoryview
"""The encoded bytes of one field. A memoryview reads from its storage without a copy."""


class ReadersError(Exception):
    """Any failure of this package; its text is one sentence for people.

    Example:
        >>> open_dataset("nowhere/")
        Traceback (most recent call last):
        SourceError: ...
    """


class SourceError(ReadersError):
    """The data is missing, empty, ambiguous or of no known kind.

    Example:
        >>> open_dataset("nowhere/")
        Traceback (most recent call last):
        SourceError: ...
    """


class SelectionError(ReadersError):
    """A selection, split or mixture that cannot be made; the text says what can.

    Example:
        >>> open_dataset("photos/").where("label == 'horse'")
        Traceback (most recent call last):
        SelectionError: ...
    """


class IndexFileError(ReadersError):
    """The side-car index of a shard can be kept nowhere.

    Example:
        >>> try:
        ...     open_dataset("train-{000000..000003}.tar")
        ... except IndexFileError:
        ...     print("set GPU_AUG_CACHE to a folder that can be written")
        TarDataset(40 samples...)
    """


class PrepareError(ReadersError):
    """Something that was asked for and cannot be done, or was done in part; the text is one sentence.

    Example:
        >>> from readers.storage.destination import open_destination
        >>> open_destination("https://host/folder")
        Traceback (most recent call last):
        PrepareError: ...
    """


class TransientError(PrepareError):
    """The storage failed and not the data: another attempt, or another machine, may succeed.

    Example:
        >>> raise TransientError("a.tar cannot be read (Input/output error): run the same command again")
        Traceback (most recent call last):
        TransientError: ...
    """


class HeaderError(ReadersError):
    """The bytes of one sample do not begin like an image; the text is a short reason.

    Example:
        >>> read_header(b"no image")
        Traceback (most recent call last):
        HeaderError: not an image: starts with b'no image'
    """


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample as stored, not decoded.

    Attributes:
        index: Index in the dataset, 0 <= index < len(dataset).
        key: Name for people, such as ``train-0003.tar/n01440764_10026``.
        fields: Encoded bytes by field name (lower case, no leading dot), in stored order.
        label: Class number, -1 when the data has none; or a vector, float32 [K]: several classes at once, shares of
            classes, or numbers to regress. See `IndexedDataset.label_shape`.
        size: (height, width) in pixels after EXIF orientation, None when the dataset does not
            know it without reading the header.
        restarts: Where the restart intervals of `image` lie, as `readers.image.restarts.restart_offsets`
            gives them; None when it has none or the dataset does not know them without a look.
        image_field: Name of the field that holds the image, where the format says so; None leaves it to
            the field names.

    Example:
        >>> [sample] = open_dataset("train-000000.tar").fetch([3])
        >>> sample.key, list(sample.fields), sample.label
        ('train-000000.tar/0003', ['jpg', 'cls'], 1)
    """

    index: int
    key: str
    fields: Mapping[str, Payload]
    label: Label = -1
    size: tuple[int, int] | None = None
    restarts: NDArray[np.int64] | None = field(default=None, repr=False, compare=False)
    image_field: str | None = None

    def __repr__(self) -> str:
        """Key, label, and name and size of every field; no contents."""
        fields: Any = self.fields
        sizes = ", ".join(f"{name}: {_size(value)}" for name, value in dict(fields).items())
        label = describe(self.label) if isinstance(self.label, np.ndarray) else repr(self.label)
        return f"Sample({self.index}, {self.key!r}, {{{sizes}}}, label={label})"

    def __eq__(self, other: object) -> bool:
        """Whether everything is the same, but for `restarts`."""
        if not isinstance(other, Sample):
            return NotImplemented
        mine, others = self._compared(), other._compared()
        return mine == others and same_label(self.label, other.label)

    def _compared(self) -> tuple[object, ...]:
        return self.index, self.key, self.fields, self.size, self.image_field

    @property
    def video_field(self) -> str | None:
        """Name of the field that holds a video: `image_field` where that names no image, else the first.

        None where there is none.
        """
        named = self.image_field
        if named is not None and named in self.fields and not is_image_field(named):
            return named
        return next((name for name in self.fields if is_video_field(name)), None)

    @property
    def video(self) -> Payload | None:
        """The bytes of `video_field`, or None."""
        name = self.video_field
        return None if name is None else self.fields[name]

    @property
    def image(self) -> Payload | None:
        """`image_field`, or the first field that holds an image (``jpg``, but ``left.jpg`` as well), or None.

        Masks (``mask.png``) do not count: they belong to it.
        """
        name = find_image(self.fields, self.image_field)
        return None if name is None else self.fields[name]


@dataclass(frozen=True, slots=True)
class BadSample:
    """A sample that could not be read, in the place where it would have been.

    Attributes:
        index: Index in the dataset, 0 <= index < len(dataset).
        key: Name for people, as in `Sample`.
        stage: What failed: fetching the bytes, reading the image's size, decoding it, or reading what
            belongs to it (masks, boxes, keypoints).
        reason: One sentence or less, without the key.
        transient: Whether the storage failed and not the data, so that it may be sound at another time or on another
            machine.

    Example:
        >>> [sample] = ListDataset(["photos/cat/nowhere.jpg"]).fetch([0])
        >>> sample.stage, isinstance(sample, BadSample)
        ('read', True)
    """

    index: int
    key: str
    stage: Literal["read", "header", "decode", "targets", "fields"]
    reason: str
    transient: bool = field(default=False, repr=False, compare=False)


class Dataset(Protocol):
    """Random access to encoded samples. It knows nothing of ranks, epochs or shuffling.

    Example:
        >>> photos = open_dataset("photos/")
        >>> [sample] = photos.fetch([35])
        >>> sample.key, sample.label
        ('dog/017.jpg', 1)
    """

    @property
    def fingerprint(self) -> str:
        """32 hex digits over keys, sizes in bytes and labels, in order.

        The same on every machine that holds the same data, wherever it lies.
        """

    @property
    def class_names(self) -> tuple[str, ...]:
        """Name of each class number, or of each number of a vector; empty when the data does not name its classes."""

    def __len__(self) -> int: ...

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Read samples in one go; safe to call from several threads at once.

        Args:
            indices: Places in the dataset, in any order, repetitions allowed.

        Returns:
            One entry per index, in the order given. A sample that cannot be read becomes a
            BadSample and takes no neighbour with it.

        Raises:
            IndexError: An index is not in 0 <= index < len.
            TypeError: The indices are no sequence of integers.
        """


def _size(payload: Any) -> str:
    if not isinstance(payload, bytes | memoryview):
        return describe(payload)
    size = float(len(payload))
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def find_image(names: Collection[str], image_field: str | None) -> str | None:
    """Return which of the fields of a sample is its image, None where none is; see `Sample.image`."""
    if image_field is not None:
        return image_field if image_field in names else None
    for name in names:
        if is_image_field(name):
            return name
    return None


def is_image_field(name: str) -> bool:
    """Whether a field holds an image: ``jpg``, ``left.jpg``, but not ``jpg.txt`` or ``mask.png``."""
    return name.rpartition(".")[2] in IMAGE_FIELDS and mask_number(name) is None


def is_video_field(name: str) -> bool:
    """Whether a field holds a video: ``mp4``, ``left.mp4``, and ``video`` as columns are called."""
    ending = name.rpartition(".")[2]
    return ending in VIDEO_FIELDS or ending == _VIDEO_NAME


def mask_number(name: str) -> int | None:
    """The number of the mask that a field holds: 3 for ``mask.3.png``, -1 for ``mask.png``.

    ``seg`` is the same as ``mask``, and png may be gif, bmp, tif or tiff. None when it holds something else.
    """
    found = _MASK.fullmatch(name) if name.startswith(("mask.", "seg.")) else None
    return found and int(found[1] or -1)


def is_image_file(name: str) -> bool:
    """Whether a file name has an image extension: ``a.jpg``, ``a.JPG``, but not ``jpg``."""
    return "." in name and name.lower().rpartition(".")[2] in IMAGE_FIELDS


def checked_indices(indices: Sequence[int] | NDArray[np.int64], length: int) -> list[int]:
    """Return the indices as plain integers.

    Raises:
        IndexError: One of them is not in 0 <= index < length.
        TypeError: They are not integers, or not in a row.
    """
    try:
        array = np.asarray(indices)
    except ValueError:  # lists of unequal length
        raise TypeError("indices must be a sequence of integers, got one of sequences") from None
    if array.ndim != 1:
        raise TypeError(
            f"indices must be a sequence of integers, got an array of the shape {array.shape}"
        )
    if array.size == 0:
        return []
    if array.dtype.kind not in "iu":
        raise TypeError(f"indices must be integers, got {array.dtype}")
    if array.min() < 0 or array.max() >= length:
        wrong = next(index for index in array.flat if not 0 <= index < length)
        raise IndexError(f"index must be in 0 <= index < {length}, got {wrong}")
    plain: list[int] = array.tolist()
    return plain


def single_index(index: Any) -> int:
    """Return one index as a plain integer.

    Raises:
        TypeError: It is no integer.
    """
    try:
        return int(operator.index(index))
    except TypeError:
        raise TypeError(
            f"an index is an integer or a slice, got {describe(index)}; for several samples call take(indices), or "
            "fetch(indices) to read them"
        ) from None


def sound(sample: "Sample | BadSample") -> Sample:
    """Return a sample that is not bad.

    Raises:
        SourceError: It is.
    """
    if isinstance(sample, BadSample):
        raise SourceError(
            f"sample {sample.index} ({sample.key}) is bad ({sample.stage}: {sample.reason}); repair it, or read with "
            "fetch([index]), which returns a BadSample in its place"
        )
    return sample
