"""Find and store the seek points of all JPEGs of a dataset in advance, before a training needs them."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from readers.datasets.origin import sources_of
from readers.jpeg_seek_points.finder import NO_IMAGE, Finder
from readers.jpeg_seek_points.layout import Entry, Head
from readers.jpeg_seek_points.locations import (
    cache_path,
    is_complete_beside,
    location_beside,
    make_head,
    open_beside,
    rewrite_in_order,
    write_beside,
)
from readers.jpeg_seek_points.sample_file import SampleFile
from readers.jpeg_seek_points.seek_point_file import SeekPointFile, open_to_add
from readers.prepare.errors import PrepareError, require_read
from readers.prepare.job import ArrayTask, Executor, Parts, even_boundaries
from readers.prepare.source import PlannedSource
from readers.sample import BadSample, Dataset, IndexFileError, Sample
from readers.storage.blob import is_url
from readers.storage.copies import copied_sample
from readers.storage.side_file import DamagedFileError
from readers.storage.unreadable import reason_of

# Samples of a task in the cache folder: little is lost when a task is killed, and a result is a few kilobytes.
_LEAST_SAMPLES, _MOST_SAMPLES = 32, 512
# Samples that are fetched together: few, because all of their images are in memory.
_AT_ONCE = 16
# Bytes of the file in the cache folder: the seek points were asked for, so the limit of the loader does not hold.
_NO_LIMIT = 1 << 62
_UNREAD = "no image, or it cannot be read"
_SOUND = "sound, but progressive, or too small"
_MOST_NAMED = 3  # samples that are named for each reason: enough to look at


@dataclass
class SeekPointCounts:
    """Counts of the stored seek points of a dataset.

    Attributes:
        found: Number of images that have seek points.
        none: Number of samples without seek points, for each reason.
        named: Keys of the first three samples without seek points, for each reason; sound images are not named.
        lacking: Number of samples that no task has searched yet; other tasks of an array job do that.
        paths: Paths or URLs of the files that hold the seek points.
        num_bytes: Size of these files.
    """

    found: int = 0
    none: Counter[str] = field(default_factory=Counter)
    named: dict[str, list[str]] = field(default_factory=dict)
    lacking: int = 0
    paths: list[str] = field(default_factory=list)
    num_bytes: int = 0

    @property
    def looked_at(self) -> int:
        """Number of samples that were searched for seek points."""
        return self.found + self.none.total()


def find_all(
    dataset: Dataset,
    source: PlannedSource,
    finder: Finder,
    executor: Executor,
    *,
    publish: bool = False,
    merge: bool = False,
    on_progress: Callable[[int, int], None] = lambda *_: None,
) -> SeekPointCounts:
    """Find and store the seek points of every image that has none yet, and return counts; a second run continues the first.

    If the data are files of many samples (tar, TFRecord, LMDB, Parquet) in a writable folder, the seek points are written
    into a file next to each of them. Otherwise they go to the cache folder, into the file that loaders read and extend. The
    bytes do not depend on the executor.

    Args:
        dataset: The dataset.
        source: Opens the dataset in other processes.
        finder: Finds the seek points of an image.
        executor: Carries out the tasks.
        publish: Whether to write next to files in object stores, too.
        merge: Find nothing, and check that all samples have been searched.
        on_progress: Called with the number of samples that are done, and of all samples.

    Raises:
        PrepareError: With `merge`, samples have not been searched; or the storage failed to give a sample.
        IndexFileError: The seek points cannot be written.
    """
    result = SeekPointCounts()
    total, done = len(dataset), 0
    on_progress(0, total)
    for place, leaf in enumerate(sources_of(dataset)):
        parts = _SeekPointParts(source, place, leaf, finder, publish=publish)
        missing = parts.missing(range(len(parts)))

        def on_part(finished: int, _: int, before: int = done) -> None:
            on_progress(min(before + finished, total), total)

        if merge:
            on_part(len(leaf) - parts.num_samples(missing), 0)
        else:
            for _ in parts.make(parts, executor, missing, len(leaf), on_part):
                pass
        done += len(leaf)
        if not isinstance(executor, ArrayTask):
            parts.finish()
        parts.count(result)
    if merge and result.lacking:
        raise PrepareError(
            f"{result.lacking:,} of {result.lacking + result.looked_at:,} samples have not been looked through: run the failed "
            "tasks again, and give all tasks the same cache folder (GPU_AUG_CACHE), which holds the results for folders"
        )
    return result


class _SeekPointParts(Parts[list[Entry]]):
    """The seek points of one source of a dataset, in parts; it can be pickled, and called with a number to make a part.

    A part holds the seek points of one data file, and is a file next to it; or it is a range of the file in the cache folder.

    Args:
        source: Opens the whole dataset.
        place: Index of the source in `sources_of` that dataset.
        leaf: The source, a dataset that reads its samples itself.
        finder: Finds the seek points of an image.
        publish: Whether to write next to files in object stores, too.
    """

    what = "file of seek points"

    def __init__(
        self, source: PlannedSource, place: int, leaf: Dataset, finder: Finder, *, publish: bool
    ) -> None:
        self._source, self._place, self._finder = source, place, finder
        files = getattr(leaf, "sample_files", ())
        self._files: Sequence[SampleFile] = files if _can_write_beside(files, publish) else ()
        boundaries = even_boundaries(len(leaf), _LEAST_SAMPLES, _MOST_SAMPLES)
        if self._files:
            boundaries = np.cumsum([0, *(file.num_samples for file in self._files)])
        super().__init__(boundaries)
        self._head = make_head(leaf, finder.version)

    def missing(self, numbers: Sequence[int]) -> list[int]:
        """Return the parts whose file next to the data is absent or incomplete; all parts, if they are in the cache folder.

        Parts in the cache folder are never skipped, because the stored seek points may be those of other bytes: all images
        are read again, but only changed ones are searched again.
        """
        version = self._finder.version
        return [
            number
            for number in numbers
            if not self._files or not is_complete_beside(self._files[number], version)
        ]

    def __call__(self, number: int) -> list[Entry]:
        """Find the seek points of a part; write them next to its data file, or return them for the cache folder."""
        stretch = self.stretch(number)
        entries = list(self._find(stretch))
        if not self._files:
            return entries
        own = [entry._replace(number=entry.number - stretch.start) for entry in entries]
        write_beside(self._files[number], self._finder.version, own)
        return []

    def store(self, number: int, result: list[Entry]) -> None:  # noqa: ARG002  # entries have numbers
        """Write the seek points that a task returned into the cache folder.

        Raises:
            IndexFileError: The file in the cache folder cannot be written.
        """
        if not result:
            return
        path = cache_path(self._head)
        try:
            open_to_add(path, self._head).add(result, _NO_LIMIT)
        except OSError as error:
            raise IndexFileError(
                f"seek points cannot be stored in {path.parent} ({reason_of(error)}): set GPU_AUG_CACHE to a folder that "
                "can be written and has room for 2 % of the data"
            ) from None

    def finish(self) -> None:
        """Sort the file in the cache folder, so that its bytes do not depend on the executor."""
        if not self._files:
            rewrite_in_order(self._head)

    def count(self, result: SeekPointCounts) -> None:
        """Add the counts of all stored seek points to the result."""
        known = 0
        for location, start, file in self._stored():
            result.paths.append(location)
            result.num_bytes += file.path.stat().st_size
            for number, slot in file.slots(0, file.head.num_samples):
                known += 1
                reason = (
                    _UNREAD if slot.status == NO_IMAGE.status else self._finder.reason(slot.status)
                )
                reason = reason or ("" if slot.num_bytes else _SOUND)
                if not reason:
                    result.found += 1
                    continue
                result.none[reason] += 1
                named = result.named.setdefault(reason, []) if reason != _SOUND else None
                if named is not None and len(named) < _MOST_NAMED:
                    named.append(self._leaf().fetch(np.array([start + number]))[0].key)
        result.lacking += int(self.boundaries[-1]) - known

    def _stored(self) -> Iterator[tuple[str, int, SeekPointFile]]:
        """Yield the location of each stored file of seek points, the dataset index of its first sample, and the open file."""
        if not self._files and (kept := _opened(self._head)):
            yield str(kept.path), 0, kept
        for start, file in zip(self.boundaries.tolist(), self._files, strict=False):
            if found := open_beside(file, self._finder.version):
                yield location_beside(file), start, found

    def _leaf(self) -> Dataset:
        return sources_of(self._source.open())[self._place]

    def _find(self, stretch: range) -> Iterator[Entry]:
        leaf = self._leaf()
        known = None if self._files else _opened(self._head)
        for first in stretch[::_AT_ONCE]:
            indices = np.arange(first, min(stretch.stop, first + _AT_ONCE))
            for number, sample in zip(indices.tolist(), leaf.fetch(indices), strict=True):
                if (entry := self._entry(number, sample, known)) is not None:
                    yield entry

    def _entry(
        self, number: int, sample: Sample | BadSample, known: SeekPointFile | None
    ) -> Entry | None:
        """Return the seek points of a sample; None if the cache folder already has them for the same bytes.

        Raises:
            TransientError: The storage failed, so that stored seek points must not be replaced.
        """
        if isinstance(sample, Sample):
            sample = copied_sample(sample, reads=lambda _: False)
        if isinstance(sample, BadSample):
            require_read(sample)
        image = sample.image if isinstance(sample, Sample) else None
        digest = 0 if image is None else self._finder.digest(image)
        if known and known.find(number, digest):
            return None
        return Entry(number, digest, NO_IMAGE if image is None else self._finder.find(image))


def _opened(head: Head) -> SeekPointFile | None:
    with suppress(OSError, DamagedFileError):  # they are then found anew
        return SeekPointFile(cache_path(head), head)
    return None


def _can_write_beside(files: Sequence[SampleFile], publish: bool) -> bool:
    """Return whether the seek points of each data file can be written next to it."""
    folders = {file.location.rpartition("/")[0] for file in files if not is_url(file.location)}
    has_urls = any(is_url(file.location) for file in files)
    return (publish or not has_urls) and all(os.access(folder, os.W_OK) for folder in folders)
