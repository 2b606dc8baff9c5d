"""The base of datasets whose samples are fetched by index: the methods that formats write, and defaults for the others."""

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
from readers.labels.label_vector import LabelShape
from readers.labels.unlabelled import Unlabelled
from readers.order.shuffle import AnyOrder, Shuffle, make_order
from readers.plural import counted
from readers.sample import BadSample, ColumnName, Dataset, FieldTypes, Sample, SourceError, sound
from readers.storage.unreadable import PAUSES_SECONDS

_Fetch = Callable[..., list[Sample | BadSample]]

_MOST_SECONDS = 5.0
"""A fetch that took longer has waited for a server, whose requests are repeated elsewhere, as their options say."""
_KEYS_READ = 256  # samples that are held at a time
# Methods that decide what a sample holds. A subclass that replaces one of them, perhaps a user's, is read by
# its `fetch` alone, as its base would locate other samples.
_READERS = frozenset(("fetch", "_fetch_one", "_payload", "_decode"))


class UnreadableLabelsError(SourceError):
    """Some samples have a label that cannot be read.

    Attributes:
        labels: Those of all samples, int64 [len], `UNREADABLE` for these.
    """

    labels: NDArray[np.int64]


class FetchedDataset(ABC):
    """`readers.IndexedDataset` without its selections; formats derive from `IndexedDataset`.

    Example:
        >>> photos = open_dataset("photos/")
        >>> photos.fetch([0, 1])[0].key, photos.column("label")[:2]
        ('cat/000.jpg', array([0, 0]))

    Attributes:
        declares_count: Whether the files say how many samples they have, or where they end, so that a loss at their end is
            noticed.
        kind_of_media: What all samples are; "" if the first sample that can be read has to tell.
        has_shard_keys: Whether keys begin with the name of a shard, which is no part of the sample's own name.
        unread_suffixes: Endings of media files in its folder that are no samples, in lower case.
    """

    declares_count: bool = True
    kind_of_media: Literal["images", "videos", ""] = ""
    has_shard_keys: bool = False
    unread_suffixes: tuple[str, ...] = ()

    _remarks: tuple[str, ...] = ()

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
        """32 hex digits that name files in the cache folder; these files say themselves which bytes they belong to.

        Other names or another order of samples change it. It may be cheaper than the fingerprint and the same for other
        bytes.
        """
        return self.fingerprint

    @property
    def class_names(self) -> tuple[str, ...]:
        """Name of each class number, or of each number of a vector; empty if the data does not name them."""
        return ()

    @property
    def label_shape(self) -> LabelShape:
        """Shape of every label: () for class numbers, (K,) for vectors of K numbers, None for vectors of several lengths."""
        return ()

    @property
    def classes(self) -> tuple[str, ...]:
        """`class_names` under the name that torchvision uses."""
        return self.class_names

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
        """Return which samples of `sources` some samples are.

        Args:
            indices: int64 [n], indices in this dataset.
        """
        return [Origin(self, indices, np.arange(len(indices)))]

    def video_files(self) -> Dataset:
        """Return the dataset of the video files of which the samples are frames; this dataset if each sample is a file."""
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
            sample: As this dataset returned it.
            checks: Decode its pictures with these, if they are not the bytes of its image; None decodes nothing.
        """
        del checks
        return SampleFacts({name: len(data) for name, data in sample.fields.items()})

    @abstractmethod
    def __len__(self) -> int: ...

    def __repr__(self) -> str:
        """The class, and the numbers of samples and classes."""
        classes = f", {counted(len(self.class_names), 'class')}" if self.class_names else ""
        return f"{type(self).__name__}({counted(len(self), 'sample')}{classes})"

    @abstractmethod
    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Read samples; a bad one becomes a `BadSample` in its place."""

    def locate(self, indices: NDArray[np.int64], reads: Reads) -> Located | None:
        """Say where the images of samples lie, for code that reads many of them in one call.

        Args:
            indices: As for `fetch`.
            reads: Returns whether a field beside the image will be read; a sample with such a field is not located.

        Returns:
            The samples without the bytes of their images; None if the format cannot locate images, or labels are vectors.

        Raises:
            IndexError: An index is not in 0 <= index < len.
            TypeError: The indices are no sequence of integers.
        """
        del indices, reads
        return None

    def __iter__(self) -> Iterator[Sample]:
        """Yield all samples in the dataset's order.

        Raises:
            SourceError: One is bad; the text gives the reason.
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

        Unknown numbers are -1 for ``label``, 0 for ``height`` and ``width``. ``num_bytes`` is the size of all fields
        together, -1 if it is not known without reading. Labels that are vectors count as unknown.

        Raises:
            SourceError: A sample has a label that cannot be read, or its storage fails.
        """

    def _readable(
        self, labels: NDArray[np.int64], reasons: Mapping[int, str] | None = None
    ) -> NDArray[np.int64]:
        """Return labels if all of them are readable.

        Args:
            labels: Labels of all samples, int64 [len], some of which may be `UNREADABLE`.
            reasons: Why labels cannot be read, by index. If the first one has no reason here, its sample is fetched for it.

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
        """Return the key of every sample; all samples are read if the format has no list of keys."""
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
            seed: >= 0.
            shuffle: As for `readers.Order`.
            shuffle_window: For "block", number of samples that the open blocks hold together; None is 4096, or
                16 blocks if that is more.
        """
        return make_order(
            len(self), seed, shuffle, block_size=self.block_size, shuffle_window=shuffle_window
        )


_fetching = threading.local()


def _reading_again(fetch: _Fetch) -> _Fetch:
    """Make a `fetch` repeat reads that failed for a moment, as they do on network file systems."""

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
