"""The base class of datasets that users write: only `__len__` and `__getitem__` (or `fetch`) are required."""

import functools
import hashlib
import io
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.datasets.arrays import as_array
from readers.datasets.dataset import IndexedDataset
from readers.describe import describe
from readers.formats.columns import UNREADABLE, shorten, to_labels, to_payload
from readers.image.header import read_header
from readers.sample import (
    COLUMNS,
    BadSample,
    ColumnName,
    HeaderError,
    Payload,
    Sample,
    SourceError,
    checked_indices,
    is_image_field,
    is_video_field,
    mask_number,
)
from readers.storage.unreadable import is_transient, lasting, reason_of

_NUM_PROBES = (
    64  # samples in a fingerprint: a change of the data is likely to show, and opening stays quick
)


def with_bytes(sample: Sample) -> Sample:
    """Return a copy of a sample whose fields are converted to bytes by `field_bytes`.

    If all fields are bytes already, the sample itself is returned.

    Raises:
        ValueError: A field cannot be converted to bytes; the text is a short reason.
    """
    given: Any = sample.fields
    if not isinstance(given, Mapping):
        raise ValueError(f"fields is {describe(given)}: give a dictionary of bytes by name")
    fields = {}
    for name, value in given.items():
        if not isinstance(name, str):
            raise ValueError(f"a field has the name {shorten(name)}: give text, such as 'jpg'")
        is_file = (
            name == sample.image_field
            or is_image_field(name)
            or is_video_field(name)
            or mask_number(name) is not None
        )
        if is_file and not isinstance(value, bytes | bytearray | memoryview):
            raise ValueError(
                f"the field {name!r} is {describe(value)}: give the bytes of an image or video file; pixels are for "
                "readers.from_arrays, or for from_torch of dali_pipes.integrations.torch_dataset"
            )
        try:
            fields[name] = field_bytes(value)
        except ValueError as error:
            raise ValueError(f"the field {name!r}: {error}") from None
    if all(fields[name] is value for name, value in given.items()):
        return sample
    return replace(sample, fields=fields)


def field_bytes(value: Any) -> Payload:
    """Return a value as the bytes of a field.

    Bytes stay unchanged, text becomes UTF-8, an array or tensor of numbers a NumPy file (.npy), and numbers, lists
    and dictionaries become JSON, with arrays in them as lists.

    Raises:
        ValueError: `value` cannot be converted to bytes; the text is a short reason.
    """
    if isinstance(value, bytearray):
        return bytes(value)
    try:
        array = as_array(value)
        if array is not None and array.ndim and array.dtype.kind in "biuf":
            stream = io.BytesIO()
            np.save(stream, array, allow_pickle=False)
            return stream.getvalue()
        return to_payload(value, _plain)
    except (TypeError, SourceError) as error:
        raise ValueError(
            f"it is or holds what no field can ({error}): give bytes, text, numbers, lists, dictionaries or arrays"
        ) from None


def _plain(value: Any) -> Any:
    """Return an array or NumPy number as lists or a plain number, for the `default` of a JSON encoder.

    Raises:
        TypeError: `value` is something else.
    """
    array = as_array(value)
    if array is not None:
        return array.tolist()
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(describe(value))


class CustomDataset(IndexedDataset):
    """The base class of a dataset of your own: write `__len__` and `__getitem__`.

    `__getitem__` gets an index, 0 <= index < len, and returns a `Sample`; several threads call it at once. If it
    raises an exception, only that sample becomes bad. Write `fetch` instead if many samples are read faster together
    (see `Dataset.fetch`).

    The other methods have defaults, some of which read samples. Override them if you have a faster way:

    - `column` reads every sample once for its label, and the header of its image for its size.
    - `fingerprint` is a digest of the length and of the keys, labels and contents of 64 evenly spaced samples. A run is
      not resumed on data with another fingerprint. A change that touches none of the 64 samples goes unnoticed.
    - `class_names` is empty.
    - Fields may be text, numbers, lists, dictionaries and arrays: `fetch` hands them over as bytes, as
      `readers.datasets.custom.field_bytes` makes them (UTF-8, JSON, .npy). Images are the bytes of a file.
    - `label_shape` is (), which means class numbers. If labels are vectors, set the class attribute, such as ``(5,)``.

    A helper process gets the dataset pickled, so its class must be importable.

    Raises:
        TypeError: A subclass defines neither `__getitem__` nor `fetch`; raised when the subclass is created.

    Example:
        >>> class Photos(CustomDataset):
        ...     def __init__(self, paths):
        ...         self.paths = paths
        ...
        ...     def __len__(self):
        ...         return len(self.paths)
        ...
        ...     def __getitem__(self, index):
        ...         with open(self.paths[index], "rb") as file:
        ...             return Sample(index, self.paths[index], {"jpg": file.read()}, label=index % 2)
        >>> photos = Photos([f"photos/cat/{number:03d}.jpg" for number in range(10)])
        >>> train, val = photos.split(8, 2)
        >>> len(train), photos.where("label == 1").column("height")
        (8, array([96, 96, 96, 96, 96]))
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        own = cls.__getitem__ is not IndexedDataset.__getitem__
        if not own and cls.fetch is CustomDataset.fetch:
            raise TypeError(
                f"{cls.__name__} has neither __getitem__ nor fetch: write __getitem__(self, index), which returns a "
                "Sample"
            )
        if "fetch" in vars(cls):
            cls.fetch = _handing_out_bytes(cls.fetch)  # type: ignore[method-assign]

    @abstractmethod
    def __len__(self) -> int: ...

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits over the length and 64 evenly spaced samples; see the class."""
        return digest_of(self)

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        """Return one number for every sample, int64 [len]; the first call reads all samples."""
        if name == "label" and self.label_shape != ():
            return np.full(len(self), -1, np.int64)
        column = self._columns[name]
        return self._readable(column) if name == "label" else column

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Read samples one by one with `__getitem__`; see `Dataset.fetch`."""
        return [self._one(index) for index in checked_indices(indices, len(self))]

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickling, without the columns, which another process reads itself if it needs them."""
        return {name: value for name, value in vars(self).items() if name != "_columns"}

    def _one(self, index: int) -> Sample | BadSample:
        try:
            sample: Any = self[index]
        except Exception as error:  # noqa: BLE001 - whatever the user's code raises, the neighbours are sound
            reason = (
                reason_of(error)
                if isinstance(error, OSError)
                else f"{type(error).__name__}: {error}"
            )
            return BadSample(index, str(index), "read", reason, transient=is_transient(error))
        if not isinstance(sample, Sample | BadSample):
            reason = f"__getitem__ returned {describe(sample)}: return a readers.Sample"
            return BadSample(index, str(index), "read", reason)
        return _checked(sample)

    @cached_property
    def _columns(self) -> dict[ColumnName, NDArray[np.int64]]:
        return read_columns(self)


def read_columns(dataset: IndexedDataset) -> dict[ColumnName, NDArray[np.int64]]:
    """Return all columns of a dataset by name, each int64 [len], by reading every sample."""
    rows = []
    for start in range(0, len(dataset), dataset.block_size):
        stop = min(start + dataset.block_size, len(dataset))
        rows += [_numbers_of(sample) for sample in lasting(dataset.fetch(range(start, stop)))]
    table = np.array(rows, np.int64).reshape(-1, len(COLUMNS))
    return {name: table[:, number] for number, name in enumerate(COLUMNS)}


def digest_of(dataset: IndexedDataset, *words: object) -> str:
    """Return 32 hex digits over the length of a dataset and 64 of its samples, evenly spaced.

    Args:
        dataset: A dataset.
        words: Further values to include in the digest; their `repr` must not depend on the machine.
    """
    digest = hashlib.sha256(f"custom {len(dataset)} {words!r}\n".encode())
    numbers = np.unique(np.linspace(0, max(len(dataset) - 1, 0), _NUM_PROBES).astype(np.int64))
    for sample in lasting(dataset.fetch(numbers[: len(dataset)])):
        digest.update(f"{sample.key!r}\n".encode("utf-8", "surrogateescape"))
        if isinstance(sample, Sample):
            digest.update(f"{np.asarray(sample.label).tolist()!r}\n".encode())
            for name, payload in sample.fields.items():
                digest.update(f"{name!r} {len(payload)}\n".encode())
                digest.update(payload)
    return digest.hexdigest()[:32]


def _numbers_of(sample: Sample | BadSample) -> tuple[int, int, int, int]:
    """Return the label, height, width and num_bytes of a sample; UNREADABLE, 0, 0, -1 if the sample is bad."""
    if isinstance(sample, BadSample):
        return UNREADABLE, 0, 0, -1
    size = sample.size or (0, 0)
    if sample.size is None and sample.image is not None:
        try:
            header = read_header(sample.image)
            size = (header.height, header.width)
        except HeaderError:
            pass
    num_bytes = sum(map(len, sample.fields.values()))
    is_vector = isinstance(sample.label, np.ndarray) and sample.label.ndim
    label = -1 if is_vector else int(to_labels([sample.label])[0])
    return label, size[0], size[1], num_bytes


_Fetch = Callable[..., list[Sample | BadSample]]


def _handing_out_bytes(fetch: _Fetch) -> _Fetch:
    """Wrap a user's `fetch` so that it converts the fields of all samples to bytes."""

    @functools.wraps(fetch)
    def fetch_bytes(*args: Any, **options: Any) -> list[Sample | BadSample]:
        return [_checked(sample) for sample in fetch(*args, **options)]

    return fetch_bytes


def _checked(sample: Sample | BadSample) -> Sample | BadSample:
    if not isinstance(sample, Sample):
        return sample
    try:
        return with_bytes(sample)
    except ValueError as error:
        return BadSample(sample.index, sample.key, "read", str(error))
