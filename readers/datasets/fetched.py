"""The base class of datasets whose samples are fetched by index.

A format implements its abstract methods; the other methods have defaults.
"""

import functools
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from readers.datasets.inspected import Checks, SampleFacts
from readers.datasets.located import Located, Reads
from readers.datasets.origin import Origin
from readers.formats.columns import to_label
from readers.jpeg_seek_points.sample_file import SampleFile
from readers.labels.flip_pairs import FlipPairs
from readers.labels.label_vector import LabelShape
from readers.labels.unlabelled import Unlabelled
from readers.order.shuffle import AnyOrder, Shuffle, make_order
from readers.plural import counted
from readers.sample import BadSample, ColumnName, Dataset, FieldTypes, Sample, SourceError, sound
from readers.storage.unreadable import PAUSES_SECONDS

_Fetch = Callable[..., list[Sample | BadSample]]

_MOST_SECONDS = 5.0
"""A fetch that took longer has waited for a server; `readers.storage.remote` has repeated its requests already."""
_KEYS_READ = 256  # samples that are held at a time
# Methods that decide what a sample holds. A subclass that replaces one of them, perhaps a user's, is read by
# its `fetch` alone, as its base would locate other samples.
_READERS = frozenset(("fetch", "_fetch_one", "_payload", "_decode"))


class UnreadableLabelsError(SourceError):
    """The labels of some samples cannot be read.

    Attributes:
        labels: Labels of all samples, int64 [len]; `UNREADABLE` for those that cannot be read.
    """

    labels: NDArray[np.int64]


class FetchedDataset(ABC):
    """The part of `readers.IndexedDataset` that reads samples; formats derive from `IndexedDataset`, which adds selections.

    Example:
        >>> photos = open_dataset("photos/")
        >>> photos.fetch([0, 1])[0].key, photos.column("label")[:2]
        ('cat/000.jpg', array([0, 0]))

    Attributes:
        declares_count: Whether the files declare the number of their samples or mark their end, so that a truncated file
            is noticed.
        kind_of_media: "images" or "videos" if all samples are of that kind; "" if the kind is only known from a sample.
        has_shard_keys: Whether keys begin with the name of a shard, which is not part of the sample's own name.
        unread_suffixes: Endings, in lower case, of media files in the dataset's folder that are not samples.
    """

    declares_count: bool = True
    kind_of_media: Literal["images", "videos", ""] = ""
    has_shard_keys: bool = False
    unread_suffixes: tuple[str, ...] = ()

    # A subclass sets these, or overrides the properties that return them.
    _remarks: tuple[str, ...] = ()
    _class_names: tuple[str, ...] = ()
    _keypoint_names: tuple[str, ...] = ()
    _flip_pairs: FlipPairs | None = None
    _label_shape: LabelShape = ()

    unlabelled: Unlabelled | None = None
    """Facts about samples without a label that are known without reading; None if none are known."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        found = [vars(base) for base in cls.__mro__]
        first = next(number for number, names in enumerate(found) if "locate" in names)
        if any(not _READERS.isdisjoint(names) for names in found[:first]):
            cls.locate = FetchedDataset.locate  # type: ignore[method-assign]
        if "fetch" in vars(cls):
            cls.fetch = _reading_again(cls.fetch)  # type: ignore[method-assign]

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """32 hex digits that identify the content."""

    @property
    def cache_identity(self) -> str:
        """32 hex digits that name the dataset's files in the cache folder.

        They depend on the names and the order of samples. Unlike the fingerprint, they may stay the same if bytes of a
        sample change: files in the cache folder record themselves which bytes they belong to. So they can be cheaper to
        compute.
        """
        return self.fingerprint

    @property
    def class_names(self) -> tuple[str, ...]:
        """Name of each class; if labels are vectors, name of each element. Empty if the data has no names."""
        return self._class_names

    @property
    def label_shape(self) -> LabelShape:
        """Shape of every label: () for class numbers, (K,) for vectors of K numbers, None for vectors of several lengths."""
        return self._label_shape

    @property
    def classes(self) -> tuple[str, ...]:
        """`class_names` under the name that torchvision uses."""
        return self.class_names

    @property
    def keypoint_names(self) -> tuple[str, ...]:
        """Name of each value of ``keypoint_labels``. Empty if the data has no names, or classes have different keypoints."""
        return self._keypoint_names

    @property
    def flip_pairs(self) -> FlipPairs | None:
        """Pairs of ``keypoint_labels`` that a Loader exchanges in mirrored images, such as left and right eye.

        () means that no keypoint has a side, None that the data does not tell.
        """
        return self._flip_pairs

    @property
    def field_types(self) -> FieldTypes:
        """Fields that are arrays of one type and shape, which a Loader stacks; see `readers.sample.FieldTypes`."""
        return {}

    @property
    def sample_files(self) -> Sequence[SampleFile]:
        """The files that hold all samples, in their order, if each file holds many samples; else empty."""
        return ()

    @property
    def remarks(self) -> tuple[str, ...]:
        """Warnings for `readers.open_dataset`: sentences about choices that may not be intended."""
        return self._remarks

    def sources(self) -> tuple[Dataset, ...]:
        """Return the datasets that read the samples, each once: this one, or those that a selection or mixture is made of."""
        return (self,)

    def origin(self, indices: NDArray[np.int64]) -> list[Origin]:
        """Return the datasets among `sources` that read some samples, and the indices of the samples in these.

        Args:
            indices: int64 [n], indices in this dataset.
        """
        return [Origin(self, indices, np.arange(len(indices)))]

    def video_files(self) -> Dataset:
        """Return the dataset of the video files that hold the samples; this dataset if each sample is a file of its own."""
        return self

    @property
    def packing_obstacle(self) -> str:
        """Why shards cannot hold the samples, as the end of a sentence that begins with the source; "" if they can."""
        if self.label_shape == ():
            return ""
        return (
            "has vectors as labels, and shards hold class numbers: pack the data without these labels (without the options "
            "that make them), and give them to the shards, open_dataset(shards, labels=...)"
        )

    def inspect_sample(self, sample: Sample, checks: Checks | None) -> SampleFacts:
        """Return facts about a sample for `readers.prepare.inspect`.

        Args:
            sample: A sample of this dataset.
            checks: Functions with which to decode pictures that are not the bytes of the sample's image field; None
                decodes nothing.
        """
        del checks
        return SampleFacts({name: len(data) for name, data in sample.fields.items()})

    @abstractmethod
    def __len__(self) -> int: ...

    def __repr__(self) -> str:
        """Show the class, the number of samples and the number of classes."""
        classes = f", {counted(len(self.class_names), 'class')}" if self.class_names else ""
        return f"{type(self).__name__}({counted(len(self), 'sample')}{classes})"

    @abstractmethod
    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Read samples by index, one entry per index; see `readers.Dataset.fetch`."""

    def locate(self, indices: NDArray[np.int64], reads: Reads) -> Located | None:
        """Return the file, offset and length of the images of samples, for code that reads many images in one call.

        Args:
            indices: Indices in the dataset, in any order, repetitions allowed.
            reads: Returns whether the caller will read a field besides the image, given its name; a sample with such a
                field is not located.

        Returns:
            The locations, and functions that make the samples; None if the format cannot locate images, or labels are
            vectors.

        Raises:
            IndexError: An index is not in 0 <= index < len.
            TypeError: `indices` is not a sequence of integers.
        """
        del indices, reads
        return None

    def __iter__(self) -> Iterator[Sample]:
        """Yield all samples in the dataset's order.

        Raises:
            SourceError: A sample is bad; the text gives the reason.
        """
        length, step = len(self), min(self.block_size, 64)
        for start in range(0, length, step):
            for sample in self.fetch(range(start, min(start + step, length))):
                yield sound(sample)

    @property
    def block_size(self) -> int:
        """Number of neighbouring samples to read together; the unit of the block shuffle."""
        return 256

    @abstractmethod
    def column(self, name: ColumnName) -> NDArray[np.int64]:
        """Return one number for every sample, int64 [len].

        Unknown values are -1 in ``label``, 0 in ``height`` and ``width``. ``num_bytes`` is the size of all fields
        together, -1 if it is not known without reading them. Labels that are vectors count as unknown.

        Raises:
            SourceError: The label of a sample cannot be read, or the storage fails.
        """

    def _readable(
        self, labels: NDArray[np.int64], reasons: Mapping[int, str] | None = None
    ) -> NDArray[np.int64]:
        """Return labels unchanged, or raise an error if one is unreadable.

        Args:
            labels: Labels of all samples, int64 [len], some of which may be `UNREADABLE`.
            reasons: Reasons why labels cannot be read, by index. If the first unreadable label has no reason here, its
                sample is fetched to find it.

        Raises:
            UnreadableLabelsError: A label is `UNREADABLE`.
        """
        if labels.min(initial=-1) >= -1:
            return labels
        wrong = np.flatnonzero(labels < -1)
        index = int(wrong[0])
        [sample] = self.fetch([index])
        reason = (reasons or {}).get(index) or _reason_of(sample)
        error = UnreadableLabelsError(
            f"{sample.key} (sample {index}): {reason}; {len(wrong):,} of {counted(len(labels), 'sample')} have a label that "
            "cannot be read: repair them, or take() the others"
        )
        error.labels = labels
        raise error

    def keys(self) -> list[str]:
        """Return the key of every sample; reads all samples if the format has no list of keys."""
        found: list[str] = []
        for start in range(0, len(self), _KEYS_READ):
            some = np.arange(start, min(start + _KEYS_READ, len(self)))
            found += [sample.key for sample in self.fetch(some)]
        return found

    def verify(self) -> Iterator[BadSample]:
        """Read all data and compare the checksums of the format, if it has any.

        Yields:
            A bad sample for each sample whose checksum differs.
        """
        yield from ()

    def order(
        self, *, seed: int = 0, shuffle: Shuffle = "global", shuffle_window: int | None = None
    ) -> AnyOrder:
        """Return the order of the samples in every epoch.

        Args:
            seed: Seed of the shuffle, >= 0.
            shuffle: "global", "block" or "none"; see `readers.Order`.
            shuffle_window: For "block", the number of samples from which each next sample is drawn; None is 4096, or
                16 blocks if that is more.
        """
        return make_order(
            len(self), seed, shuffle, block_size=self.block_size, shuffle_window=shuffle_window
        )


_fetching = threading.local()


def _reading_again(fetch: _Fetch) -> _Fetch:
    """Wrap `fetch` so that samples with transient errors, as network file systems have them, are read again."""

    @functools.wraps(fetch)
    def fetch_again(self: Any, indices: Any) -> list[Sample | BadSample]:
        if getattr(
            _fetching, "is_nested", False
        ):  # within the fetch of a selection, which reads again
            return fetch(self, indices)
        _fetching.is_nested, began = True, time.perf_counter()
        try:
            samples = fetch(self, indices)
            is_quick = time.perf_counter() - began < _MOST_SECONDS
            if (
                BadSample in set(map(type, samples))
                and is_quick
                and not getattr(self, "_is_remote", False)
            ):
                _replace_transient(functools.partial(fetch, self), np.asarray(indices), samples)
            return samples
        finally:
            _fetching.is_nested = False

    return fetch_again


def _replace_transient(
    fetch: _Fetch, indices: NDArray[np.int64], samples: list[Sample | BadSample]
) -> None:
    for pause in PAUSES_SECONDS:
        rows = [
            row for row, one in enumerate(samples) if isinstance(one, BadSample) and one.transient
        ]
        if not rows:
            return
        time.sleep(pause)
        for row, sample in zip(rows, fetch(indices[rows]), strict=True):
            samples[row] = sample


def _reason_of(sample: Sample | BadSample) -> str:
    """Return why the label of a sample cannot be read."""
    if isinstance(sample, BadSample):
        return f"{sample.reason}{' (the storage failed)' * sample.transient}"
    try:
        to_label(sample.label)
    except ValueError as error:
        return str(error)
    return "the label could not be read a moment ago, and can now: try again"
