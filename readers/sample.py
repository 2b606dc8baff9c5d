"""Samples of a dataset, and the errors it raises.

ReadersError
├── SourceError      the data is missing, empty, ambiguous or of an unknown format
├── SelectionError   a selection, mixture or split cannot be made
├── IndexFileError   no writable folder was found for the index file of a shard
├── PrepareError     a command on shards or storage cannot be done, or was done in part
│   └── TransientError   the storage failed; another attempt may succeed
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

IMAGE_FIELDS = (
    *("jpg", "jpeg", "png", "webp", "bmp", "tif", "tiff", "gif", "ppm", "pgm"),
    *("avif", "avifs", "heic", "heics", "heif", "hif"),
    *("jxl", "jp2", "j2c", "j2k", "jpc", "jpf", "jpx"),
)
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
"""Names of the columns that every dataset has; see `readers.datasets.dataset.IndexedDataset.column`."""

FieldTypes = Mapping[str, tuple[str, tuple[int, ...]]]
"""The fields whose arrays have one dtype and shape in all samples: by field name, NumPy's name of the dtype, and the shape."""

Payload = bytes | memoryview
"""The encoded bytes of one field. A memoryview reads from its storage without a copy."""


class ReadersError(Exception):
    """Base class of all errors of this package; the text is one sentence.

    Example:
        >>> open_dataset("nowhere/")
        Traceback (most recent call last):
        SourceError: ...
    """


class SourceError(ReadersError):
    """The data is missing, empty, ambiguous or of an unknown format.

    Example:
        >>> open_dataset("nowhere/")
        Traceback (most recent call last):
        SourceError: ...
    """


class SelectionError(ReadersError):
    """A selection, split or mixture cannot be made; the text says what is possible instead.

    Example:
        >>> open_dataset("photos/").where("label == 'horse'")
        Traceback (most recent call last):
        SelectionError: ...
    """


class IndexFileError(ReadersError):
    """No writable folder was found for the index file of a shard.

    Example:
        >>> try:
        ...     open_dataset("train-{000000..000003}.tar")
        ... except IndexFileError:
        ...     print("set GPU_AUG_CACHE to a folder that can be written")
        TarDataset(40 samples...)
    """


class PrepareError(ReadersError):
    """A command on shards or storage (pack, index, merge) cannot be done, or was done in part; the text is one sentence.

    Example:
        >>> from readers.storage.destination import open_destination
        >>> open_destination("https://host/folder")
        Traceback (most recent call last):
        PrepareError: ...
    """


class TransientError(PrepareError):
    """The storage failed although the data may be sound: another attempt, or another machine, may succeed.

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
        label: Class number, -1 if the sample has no label; or a vector, float32 [K]: several classes at once, shares of
            classes, or numbers to regress. See `IndexedDataset.label_shape`.
        size: (height, width) in pixels after EXIF orientation, None if the dataset does not
            know the size without reading the header.
        restarts: Offsets of the restart intervals of the JPEG in `image`, as `readers.image.restarts.restart_offsets`
            returns them; None if the image has no restart intervals, or if finding them needs a scan of its bytes.
        image_field: Name of the field that holds the image, if the format declares one; if None, the image is found
            by the field names.

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
        """Show the key, the label, and the name and size of every field, without contents."""
        fields: Any = self.fields
        sizes = ", ".join(f"{name}: {_size(value)}" for name, value in dict(fields).items())
        label = describe(self.label) if isinstance(self.label, np.ndarray) else repr(self.label)
        return f"Sample({self.index}, {self.key!r}, {{{sizes}}}, label={label})"

    def __eq__(self, other: object) -> bool:
        """Return whether two samples are equal in everything except `restarts`."""
        if not isinstance(other, Sample):
            return NotImplemented
        mine, others = self._compared(), other._compared()
        return mine == others and same_label(self.label, other.label)

    def _compared(self) -> tuple[object, ...]:
        return self.index, self.key, self.fields, self.size, self.image_field

    @property
    def video_field(self) -> str | None:
        """Name of the field that holds a video; None if the sample has no video.

        This is `image_field` if that field exists and is not an image, else the first field with the name of a video.
        """
        named = self.image_field
        if named is not None and named in self.fields and not is_image_field(named):
            return named
        return next((name for name in self.fields if is_video_field(name)), None)

    @property
    def video(self) -> Payload | None:
        """The encoded bytes of the video in `video_field`; None if the sample has no video."""
        name = self.video_field
        return None if name is None else self.fields[name]

    @property
    def image(self) -> Payload | None:
        """The encoded bytes of the image; None if the sample has no image.

        They are read from `image_field`, or, if that is None, from the first field with the name of an image (``jpg``, but
        ``left.jpg`` as well). Masks (``mask.png``) do not count as images.
        """
        name = find_image(self.fields, self.image_field)
        return None if name is None else self.fields[name]


@dataclass(frozen=True, slots=True)
class BadSample:
    """The entry that takes the place of a sample that could not be read or decoded.

    Attributes:
        index: Index in the dataset, 0 <= index < len(dataset).
        key: Name for people, as in `Sample`.
        stage: The step that failed: "read" (fetching the bytes), "header" (reading the image's size), "decode", "targets"
            (reading masks, boxes or keypoints) or "fields" (reading further data).
        reason: Why the step failed, in one sentence or less, without the key.
        transient: Whether the storage failed, not the data, so that the sample may be readable later or on another
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

        They do not depend on the machine or the path, only on the data.
        """

    @property
    def class_names(self) -> tuple[str, ...]:
        """Name of each class number, or of each number of a vector; empty if the data does not name its classes."""

    def __len__(self) -> int: ...

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Read samples by index; safe to call from several threads at once.

        Args:
            indices: Indices in the dataset, in any order, repetitions allowed.

        Returns:
            One entry per index, in the order given. A sample that cannot be read becomes a
            BadSample and takes no neighbour with it.

        Raises:
            IndexError: An index is not in 0 <= index < len.
            TypeError: `indices` is not a sequence of integers.
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
    """Return the name of the field that holds the image of a sample; None if there is no image.

    Args:
        names: Names of the sample's fields.
        image_field: Name of the field that the format declares as the image; None finds the image by the field names.
    """
    if image_field is not None:
        return image_field if image_field in names else None
    for name in names:
        if is_image_field(name):
            return name
    return None


def is_image_field(name: str) -> bool:
    """Return whether a field holds an image: ``jpg``, ``left.jpg``, but not ``jpg.txt`` or ``mask.png``."""
    return name.rpartition(".")[2] in IMAGE_FIELDS and mask_number(name) is None


def is_video_field(name: str) -> bool:
    """Return whether a field holds a video: ``mp4``, ``left.mp4``, and the column name ``video``."""
    ending = name.rpartition(".")[2]
    return ending in VIDEO_FIELDS or ending == _VIDEO_NAME


def mask_number(name: str) -> int | None:
    """Return the number in the name of a mask field: 3 for ``mask.3.png``, -1 for ``mask.png``; None for other fields.

    The name may begin with ``seg`` instead of ``mask``, and end in png, gif, bmp, tif or tiff.
    """
    found = _MASK.fullmatch(name) if name.startswith(("mask.", "seg.")) else None
    return found and int(found[1] or -1)


def is_image_file(name: str) -> bool:
    """Return whether a file name has an image extension: ``a.jpg``, ``a.JPG``, but not ``jpg``."""
    return "." in name and name.lower().rpartition(".")[2] in IMAGE_FIELDS


def checked_indices(indices: Sequence[int] | NDArray[np.int64], length: int) -> list[int]:
    """Return indices as a list of plain integers.

    Raises:
        IndexError: An index is not in 0 <= index < length.
        TypeError: `indices` is not a one-dimensional sequence of integers.
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
        TypeError: `index` is not an integer.
    """
    try:
        return int(operator.index(index))
    except TypeError:
        raise TypeError(
            f"an index is an integer or a slice, got {describe(index)}; for several samples call take(indices), or "
            "fetch(indices) to read them"
        ) from None


def sound(sample: "Sample | BadSample") -> Sample:
    """Return the given sample unchanged, or raise an error if it is bad.

    Raises:
        SourceError: The sample is a `BadSample`; the text gives its reason.
    """
    if isinstance(sample, BadSample):
        raise SourceError(
            f"sample {sample.index} ({sample.key}) is bad ({sample.stage}: {sample.reason}); repair it, or read with "
            "fetch([index]), which returns a BadSample in its place"
        )
    return sample
