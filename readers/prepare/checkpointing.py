"""Finding the checkpoints of all JPEGs of a dataset, before anybody waits for them."""

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
from readers.prepare.executor import ArrayTask, Executor, Job
from readers.prepare.shards.source import PlannedSource
from readers.sample import BadSample, Dataset, IndexFileError, Sample
from readers.storage.blob import is_url
from readers.storage.copies import copied_sample
from readers.storage.side_file import DamagedFileError
from readers.storage.unreadable import reason_of

_LEAST_SAMPLES, _MOST_SAMPLES, _MOST_TASKS = 32, 512, 4096
_AT_ONCE = 16
_TASK_BYTES = 1 << 28
_NO_LIMIT = 1 << 62
_UNREAD = "no image, or it cannot be read"
_SOUND = "sound, but progressive, or too small"
_MOST_NAMED = 3


@dataclass
class Checkpointing:
    """What is known of the images of a dataset.

    Attributes:
        found: How many have checkpoints.
        none: How many have none, by reason.
        named: The keys of the first three of them, by reason, but for those that are sound.
        lacking: Samples that nobody has looked at yet; other tasks of an array job do.
        paths: The files that hold all this.
        num_bytes: Their size.
    """

    found: int = 0
    none: Counter[str] = field(default_factory=Counter)
    named: dict[str, list[str]] = field(default_factory=dict)
    lacking: int = 0
    paths: list[str] = field(default_factory=list)
    num_bytes: int = 0

    @property
    def looked_at(self) -> int:
        """Samples that were looked at."""
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
) -> Checkpointing:
    """Find the checkpoints of every image that none are known of, and keep them; a second run goes on with the first.

    Those of files of many samples (tar, TFRecord, LMDB, Parquet) are written beside each of them, where it can be
    written there; all others into the cache folder, in the file that the loader reads and adds to. They are the same
    bytes, whoever finds them.

    Args:
        dataset: The images.
        source: How others open it.
        finder: Finds them.
        executor: Who carries out the tasks.
        publish: Write beside files in object stores.
        merge: Find none, and see that all are there.
        on_progress: Called with the samples that are done, and all.

    Raises:
        PrepareError: With `merge`, some are missing; or a sample cannot be read that may be sound.
        IndexFileError: They cannot be written.
    """
    result = Checkpointing()
    total, done = len(dataset), 0
    on_progress(0, total)
    for place, leaf in enumerate(sources_of(dataset)):
        part = _Part(source, place, finder, publish=publish)
        part.keep(leaf)
        numbers = [number for number in range(part.num_tasks) if not part.is_done(number)]
        done += sum(part.samples_of(number) for number in set(range(part.num_tasks)) - set(numbers))
        on_progress(min(done, total), total)
        if not merge:
            for number, entries in executor.run(
                Job(part, numbers, _TASK_BYTES, "file of checkpoints")
            ):
                part.take(entries)
                done += part.samples_of(number)
                on_progress(min(done, total), total)
        if not isinstance(executor, ArrayTask):
            part.finish()
        _count(part, finder, result)
    if merge and result.lacking:
        raise PrepareError(
            f"{result.lacking:,} of {result.lacking + result.looked_at:,} samples have no verdict yet: run the tasks again "
            "that have not ended well; what they find of folders lies in the cache folder, which must be the same for all "
            "tasks (GPU_AUG_CACHE)"
        )
    return result


class _Part:
    """The tasks for one dataset that reads its samples itself; it can be pickled."""

    def __init__(self, source: PlannedSource, place: int, finder: Finder, *, publish: bool) -> None:
        self._source, self._place, self._finder = source, place, finder
        self._publish = publish
        self._leaf: Dataset | None = None

    def __getstate__(self) -> dict[str, object]:
        """Another process opens the dataset itself, once."""
        return self.__dict__ | {"_leaf": None}

    def keep(self, leaf: Dataset) -> None:
        """Go on with a dataset that is open."""
        self._leaf = leaf
        files = getattr(leaf, "sample_files", ())
        self.files: Sequence[SampleFile] = files if _can_write_beside(files, self._publish) else ()
        self._starts = [0]
        if self.files:
            for file in self.files:
                self._starts.append(self._starts[-1] + file.num_samples)
        else:
            span = max(_LEAST_SAMPLES, min(_MOST_SAMPLES, -(-len(leaf) // _MOST_TASKS)))
            self._starts += [*range(span, len(leaf), span), len(leaf)]
        self.head = make_head(leaf, self._finder.version)

    @property
    def num_tasks(self) -> int:
        return len(self._starts) - 1

    @property
    def num_samples(self) -> int:
        return self._starts[-1]

    def samples_of(self, number: int) -> int:
        return self._starts[number + 1] - self._starts[number]

    def is_done(self, number: int) -> bool:
        """Whether the samples of a task are known, all of them."""
        if not self.files:
            return False  # what is known may be of other bytes: the files are read, and not looked through again
        return is_complete_beside(self.files[number], self._finder.version)

    def __call__(self, number: int) -> list[Entry]:
        """Carry out a task; return what was found where it is to be kept by whoever asked."""
        found = list(self._find(self._starts[number], self._starts[number + 1]))
        if not self.files:
            return found
        own = [entry._replace(number=entry.number - self._starts[number]) for entry in found]
        write_beside(self.files[number], self._finder.version, own)
        return []

    def take(self, entries: Sequence[Entry]) -> None:
        """Keep what a task has found.

        Raises:
            IndexFileError: It cannot be written.
        """
        if not entries:
            return
        path = cache_path(self.head)
        try:
            open_to_add(path, self.head).add(entries, _NO_LIMIT)
        except OSError as error:
            raise IndexFileError(
                f"the checkpoints cannot be kept in {path.parent} ({reason_of(error)}): set GPU_AUG_CACHE to a folder that "
                "can be written and has room for 2 % of the data"
            ) from None

    def finish(self) -> None:
        """Put what lies in the cache folder in order."""
        if not self.files:
            rewrite_in_order(self.head)

    def known(self) -> Iterator[tuple[str, int, SeekPointFile]]:
        """Yield where each file that is there lies, its first sample, and the file."""
        if not self.files and (kept := _opened(self.head)):
            yield str(kept.path), 0, kept
        for start, file in zip(self._starts, self.files, strict=False):
            if found := open_beside(file, self._finder.version):
                yield location_beside(file), start, found

    def key(self, number: int) -> str:
        """The key of a sample."""
        return self._opened().fetch(np.array([number]))[0].key

    def _find(self, start: int, stop: int) -> Iterator[Entry]:
        leaf = self._opened()
        known = None if self.files else _opened(self.head)
        for first in range(start, stop, _AT_ONCE):
            indices = np.arange(first, min(stop, first + _AT_ONCE))
            for number, sample in zip(indices.tolist(), leaf.fetch(indices), strict=True):
                if (entry := self._entry(number, sample, known)) is not None:
                    yield entry

    def _entry(
        self, number: int, sample: Sample | BadSample, known: SeekPointFile | None
    ) -> Entry | None:
        """What is found of a sample; None where it is known.

        Raises:
            TransientError: The storage failed, and what is stored is not found anew.
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

    def _opened(self) -> Dataset:
        if self._leaf is None:
            self._leaf = sources_of(self._source.open())[self._place]
        return self._leaf


def _opened(head: Head) -> SeekPointFile | None:
    with suppress(OSError, DamagedFileError):  # they are then found anew
        return SeekPointFile(cache_path(head), head)
    return None


def _can_write_beside(files: Sequence[SampleFile], publish: bool) -> bool:
    """Whether each file can have its checkpoints beside it."""
    folders = {file.location.rpartition("/")[0] for file in files if not is_url(file.location)}
    has_urls = any(is_url(file.location) for file in files)
    return (publish or not has_urls) and all(os.access(folder, os.W_OK) for folder in folders)


def _count(part: _Part, finder: Finder, result: Checkpointing) -> None:
    """Add what is known by now."""
    known = 0
    for location, start, file in part.known():
        result.paths.append(location)
        result.num_bytes += file.path.stat().st_size
        for number, slot in file.slots(0, file.head.num_samples):
            known += 1
            reason = _UNREAD if slot.status == NO_IMAGE.status else finder.reason(slot.status)
            reason = reason or ("" if slot.num_bytes else _SOUND)
            if not reason:
                result.found += 1
                continue
            result.none[reason] += 1
            if reason != _SOUND and len(named := result.named.setdefault(reason, [])) < _MOST_NAMED:
                named.append(part.key(start + number))
    result.lacking += part.num_samples - known
