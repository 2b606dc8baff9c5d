"""Building the indexes that a source needs, before anybody waits for them."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from readers.dataset import IndexedDataset
from readers.formats.lerobot.dataset import LeRobotDataset
from readers.prepare.kind import holds_videos
from readers.prepare.source import open_at_random
from readers.sample import Dataset
from readers.storage.blob import Blob
from readers.storage.index import FoundIndex
from readers.storage.index.builder import build_indexes
from readers.video.index import VideoIndex


@dataclass(frozen=True)
class Indexing:
    """The result of `index`.

    Attributes:
        dataset: The source, opened.
        shards: Every shard and its index; those that were built now say so.
        seconds: How long indexing the shards took.
        videos: What the videos hold, where the source holds videos.
        files: Whose samples these are: the source or, where its samples are frames, the files that hold them.
    """

    dataset: IndexedDataset
    shards: list[tuple[Blob, FoundIndex]]
    seconds: float
    videos: VideoIndex | None
    files: Dataset


def index(
    source: str,
    *,
    format: str | None = None,
    num_workers: int | None = None,
    on_shards: Callable[[int, int], None] = lambda *_: None,
    on_videos: Callable[[int, int], None] = lambda *_: None,
    **options: Any,
) -> Indexing:
    """Index every shard of a source, and look through its videos.

    What is there and fits is left as it is, so a second run goes on with the first.

    Args:
        source: A source as for `readers.open_dataset`.
        format: Name of the format, where the source does not tell it.
        num_workers: Processes; all cores when None.
        on_shards: Called with the bytes of shards that are done, and of all shards.
        on_videos: Called with the number of videos that are done, and of all.
        options: ``split`` and options of the format, as for `readers.open_dataset`.

    Raises:
        SourceError: The source cannot be opened.
        IndexFileError: No folder for the index can be written to.

    Example:
        >>> from readers.prepare import index
        >>> if __name__ == "__main__":                     # its processes import this file
        ...     found = index("train-{000000..000003}.tar", num_workers=1)
        >>> len(found.shards)
        4
    """
    start_seconds = time.perf_counter()
    done_bytes = total_bytes = 0

    def on_found(_: int, size_bytes: int) -> None:
        nonlocal total_bytes
        total_bytes += size_bytes
        on_shards(done_bytes, total_bytes)

    def on_index(blob: Blob, _: FoundIndex) -> None:
        nonlocal done_bytes
        done_bytes += blob.size_bytes
        on_shards(done_bytes, total_bytes)

    num_processes = num_workers or os.cpu_count() or 1
    with build_indexes(num_processes, on_found=on_found, on_index=on_index) as builder:
        dataset = open_at_random(source, format, **options)
    seconds = time.perf_counter() - start_seconds
    files: Dataset = dataset
    if isinstance(dataset, LeRobotDataset):
        files = dataset.videos.files
    found = len(files) > 0 and holds_videos(files)
    videos = VideoIndex.open(files, progress=on_videos) if found else None
    return Indexing(dataset, builder.found, seconds, videos, files)
