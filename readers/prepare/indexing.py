"""Build the index files of a dataset in advance, so that no training has to wait for them."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from readers.datasets.dataset import IndexedDataset
from readers.jpeg_seek_points.finder import Finder
from readers.prepare.errors import PrepareError
from readers.prepare.inspection.kind import holds_videos
from readers.prepare.job import ArrayTask, Executor, Job, LocalExecutor
from readers.prepare.seek_points import SeekPointCounts, find_all
from readers.prepare.source import open_at_random, planned_source
from readers.sample import Dataset
from readers.storage.blob import Blob
from readers.storage.index import FoundIndex
from readers.storage.index.builder import LackingIndexError, build_indexes
from readers.storage.paths import shown_path
from readers.video.index import VideoIndex

# Memory of a task: that of Python with its libraries, since a scan of a shard only stores offsets.
_TASK_BYTES = 1 << 28


@dataclass(frozen=True)
class Indexing:
    """The result of `index`.

    Attributes:
        opened: The opened source; None if shards have no index yet.
        shards: Pairs of a shard and its index, for every shard that has an index; the index tells whether it was built now.
        seconds: Seconds that indexing the shards took.
        videos: Index of the videos; None if the source holds no videos.
        files: The dataset of the video files: the source itself, or the files that hold its samples if these are frames.
        lacking: Paths or URLs of shards without an index, which other tasks of an array job build.
        seek_points: Counts of the seek points; None if they were not requested, or shards have no index yet.
    """

    opened: IndexedDataset | None
    shards: list[tuple[Blob, FoundIndex]]
    seconds: float
    videos: VideoIndex | None = None
    files: Dataset | None = None
    lacking: list[str] = field(default_factory=list)
    seek_points: SeekPointCounts | None = None

    @property
    def dataset(self) -> IndexedDataset:
        """The opened source.

        Raises:
            PrepareError: Shards have no index yet.
        """
        if self.opened is None:
            num_shards = len(self.lacking) + len(self.shards)
            raise PrepareError(
                f"{len(self.lacking):,} of {num_shards:,} shards have no index, the first is "
                f"{shown_path(self.lacking[0])}: run the failed tasks again, which build the missing indexes"
            )
        return self.opened


def index(
    source: str,
    *,
    format: str | None = None,
    num_workers: int | None = None,
    executor: Executor | None = None,
    publish: bool = False,
    merge: bool = False,
    finder: Finder | None = None,
    on_shards: Callable[[int, int], None] = lambda *_: None,
    on_videos: Callable[[int, int], None] = lambda *_: None,
    on_seek_points: Callable[[int, int], None] = lambda *_: None,
    **options: Any,
) -> Indexing:
    """Build the index of every shard and every video of a source, and return them.

    Indexes that exist and fit their shard are kept, so a second run continues the first.

    Args:
        source: A source as for `readers.open_dataset`.
        format: Name of the format, if it cannot be detected.
        num_workers: Number of processes; all cores if None.
        executor: Indexes the shards; processes of this machine if None. Other machines write each index next to its
            shard. Videos are indexed in this process; an `ArrayTask` does not index them.
        publish: Upload the index of each shard in an object store next to the shard, where readers find it. This is
            required if other machines index such shards.
        merge: Build nothing, and check that every shard has its index.
        finder: Finds the seek points of JPEGs, which are then stored, too; see `readers.prepare.seek_points`. None finds
            no seek points. A task of an array job does its share once all indexes exist.
        on_shards: Called with the number of bytes in finished shards, and in all shards.
        on_videos: Called with the number of finished videos, and of all videos.
        on_seek_points: Called with the number of samples whose seek points are done, and of all samples.
        options: ``split`` and options of the format, as for `readers.open_dataset`.

    Raises:
        SourceError: The source cannot be opened.
        IndexFileError: No writable folder was found for an index.
        PrepareError: An index that should exist is missing, or a task failed.

    Example:
        >>> from readers.prepare import index
        >>> if __name__ == "__main__":                     # its processes import this file
        ...     found = index("train-{000000..000003}.tar", num_workers=1)
        >>> len(found.shards)
        4
    """
    start_seconds = time.perf_counter()
    done_bytes = total_bytes = 0
    chosen = executor or LocalExecutor(num_workers)

    def on_found(_: int, size_bytes: int) -> None:
        nonlocal total_bytes
        total_bytes += size_bytes
        on_shards(done_bytes, total_bytes)

    def on_index(blob: Blob, _: FoundIndex) -> None:
        nonlocal done_bytes
        done_bytes += blob.size_bytes
        on_shards(done_bytes, total_bytes)

    def run(do: Callable[[int], bool], numbers: Sequence[int]) -> Iterator[tuple[int, bool]]:
        return iter(()) if merge else chosen.run(Job(do, numbers, _TASK_BYTES, "index"))

    elsewhere = not isinstance(chosen, LocalExecutor)
    opened: IndexedDataset | None = None
    with (
        build_indexes(
            run, on_found=on_found, on_index=on_index, elsewhere=elsewhere, publish=publish
        ) as builder,
        suppress(LackingIndexError),  # `builder` lists them
    ):
        opened = open_at_random(source, format, **options)
    seconds = time.perf_counter() - start_seconds
    found = Indexing(opened, builder.found, seconds, lacking=builder.lacking)
    if finder is not None and opened is not None:
        planned = planned_source(source, opened, format, options)
        seek_points = find_all(
            opened,
            planned,
            finder,
            chosen,
            publish=publish,
            merge=merge,
            on_progress=on_seek_points,
        )
        found = replace(found, seek_points=seek_points)
    if isinstance(chosen, ArrayTask):
        return found
    return _with_videos(found, on_videos)


def _with_videos(found: Indexing, on_videos: Callable[[int, int], None]) -> Indexing:
    files = found.dataset.video_files()
    has_videos = len(files) > 0 and holds_videos(files)
    videos = VideoIndex.open(files, progress=on_videos) if has_videos else None
    return replace(found, videos=videos, files=files)
