"""The index of a dataset of videos: a file with the metadata of every video, which is scanned once."""

import os
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, wait
from contextlib import suppress
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from readers.datasets.dataset import Subset
from readers.datasets.origin import origin_of
from readers.sample import (
    BadSample,
    Dataset,
    Payload,
    Sample,
    TransientError,
)
from readers.storage.atomic_file import PartFile, find_or_build, foreign_errors
from readers.storage.blob.mapped import copied
from readers.storage.cache_folder import cache_folder
from readers.storage.side_file import DamagedFileError
from readers.storage.traffic import CountingThreads
from readers.storage.unreadable import is_transient, lasting
from readers.video.containers.open import VideoError
from readers.video.files import ClipListDataset, read_seconds
from readers.video.frame_folder import FrameFolderDataset
from readers.video.info import VideoInfo, count_peculiar
from readers.video.progress import terminal_bar
from readers.video.scan import scan_video
from readers.video.store import Store, StoreWriter

SUFFIX = ".gpuaug-videos"
"""End of the names of index files."""
_BATCH = 4
"""Number of videos that a task of a thread scans."""
_NUM_PROBES = 16
"""Number of videos whose bytes are compared when an index is opened: more would delay each start of a training."""
_PIN_BYTES = 4096
"""Number of bytes at both ends of a video that are compared: containers store their tables there."""

Progress = Callable[[int, int], None]
"""A function that is called with the number of videos that are done, and the number of all videos."""


class VideoIndex:
    """The metadata of the videos of a dataset, by sample index; `open` finds or builds it.

    The index file is memory-mapped, so only the needed parts are read. Any number of threads and processes may use it at the
    same time. The object can be pickled; another process opens the file itself.

    Attributes:
        path: Path of the index file.
        videos: int64 [n], the row in `store` of each sample's video; samples that are clips of one file share a row.
    """

    def __init__(self, dataset: Dataset, path: Path, samples: NDArray[np.int64]) -> None:
        """Use an existing index file.

        Args:
            dataset: The dataset that the file belongs to.
            path: Path of the file.
            samples: int64 [n], indices in `dataset` of the samples of this index.
        """
        self.path = path
        self._dataset = dataset
        self._firsts, videos = _videos_of(dataset)
        self.videos = videos[samples]
        whole, indices = _in_unselected(dataset, samples)
        self._listed = (
            whole.segment_seconds[indices] if isinstance(whole, ClipListDataset) else None
        )

    @classmethod
    def open(cls, dataset: Dataset, *, progress: Progress | None = None) -> Self:
        """Return the index of a dataset; if no index file fits, scan all videos and write one.

        The file is ``NAME.gpuaug-videos`` next to the folder or the list; if that cannot be written, or the dataset is of
        another kind, it is in ``$GPU_AUG_CACHE`` (``~/.cache/gpu-aug`` if not set), named after the fingerprint of the data. A
        selection uses the index of the original dataset, if that exists or at least half of the samples are selected. If a
        clip list has several clips of a file, the file is scanned once.

        The index is rebuilt if names, sizes or labels have changed, if its file is damaged, or if one of 16 evenly spread
        videos begins or ends with other bytes (for folders of frames: its first picture does), or its clip has other seconds.
        Videos that could not be read count as having no frames until the index is deleted, but are scanned again when their
        metadata is needed. If several processes need the index, one builds it, and the others wait.

        Args:
            dataset: A dataset with a video in each sample.
            progress: Called with the number of scanned videos, and the number of all videos; None shows a bar if stderr is a
                terminal.

        Raises:
            IndexFileError: No writable folder was found for the index file.
            SourceError: The index must be built, but PyAV is not installed.
        """
        samples = np.arange(len(dataset))
        while isinstance(dataset, Subset):
            whole, _ = _in_unselected(dataset, samples[:0])
            if 2 * len(dataset) < len(dataset.whole) and _find(whole) is None:
                break
            samples = dataset.indices_in_whole(samples)
            dataset = dataset.whole
        path = _open(dataset, progress or terminal_bar("scanning videos"))
        return cls(dataset, path, samples)

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.videos)

    def __getitem__(self, index: int) -> VideoInfo | VideoError:
        """Return the metadata of a sample's video, or a `VideoError` with the reason why it cannot be used."""
        video = int(self.videos[index])
        with suppress(DamagedFileError):  # the video is then scanned again
            found = self.store.video(video)
            if not isinstance(found, VideoError) or self.store.rows["pin"][video]:
                return found
        try:
            return scan_sample(self._dataset, int(self._firsts[video])).found
        except TransientError as error:
            failed = VideoError(str(error))
            failed.__cause__ = error  # by which the sample counts as transient
            return failed

    @cached_property
    def segment_seconds(self) -> NDArray[np.float64]:
        """float64 [n, 2], start and end of each sample's clip in seconds; NaN, NaN for whole videos.

        See `readers.video.files.read_seconds`.
        """
        if self._listed is not None:  # samples of one file share a row
            return self._listed
        seconds: NDArray[np.float64] = self.store.rows["segment_seconds"][self.videos]
        return seconds

    @cached_property
    def num_frames(self) -> NDArray[np.int64]:
        """int64 [n], number of frames of each sample's video; 0 for samples whose video cannot be read."""
        return self.store.rows["num_frames"][self.videos].astype(np.int64)

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """int64 [n, 2], height and width of each video after rotation to upright; 0, 0 for unreadable videos."""
        rows = self.store.rows
        return np.stack([rows["height"], rows["width"]], 1)[self.videos].astype(np.int64)

    @property
    def peculiar(self) -> dict[str, int]:
        """Number of video files with each unusual property of `readers.video.info.WORDS`."""
        rows = self.store.rows[np.unique(self.videos)]
        return count_peculiar(rows[rows["num_frames"] > 0])

    @cached_property
    def store(self) -> Store:
        """The tables of the index file, memory-mapped; if the file was removed or damaged, it is built again."""
        with suppress(OSError, DamagedFileError):  # it was removed or damaged since
            return Store(self.path, self._dataset.fingerprint)
        self.path = _open(self._dataset, lambda *_: None)  # as on another machine
        return Store(self.path, self._dataset.fingerprint)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickling, without the content of the index file."""
        stored = ("store", "segment_seconds")
        return {name: value for name, value in self.__dict__.items() if name not in stored}


class Scanned(NamedTuple):
    """The result of scanning the video of a sample.

    Attributes:
        found: Metadata of the video, or a `VideoError` with the reason why it cannot be used.
        pin: Checksum of the first and last bytes of the video; 0 if they cannot be read.
        seconds: Start and end of the sample's clip, in seconds; None for the whole video.
    """

    found: VideoInfo | VideoError
    pin: int
    seconds: tuple[float, float] | None = None


def scan_sample(dataset: Dataset, index: int) -> Scanned:
    """Scan the video of one sample, and return its metadata.

    Raises:
        TransientError: The storage failed, so the result must not be stored.
    """
    [content] = _contents(dataset, np.array([index]))
    if isinstance(content, VideoError):
        return Scanned(content, 0)
    whole, [own] = _in_unselected(dataset, np.array([index]))
    if isinstance(whole, FrameFolderDataset):
        return Scanned(whole.info(int(own)), content.pin)
    try:
        return Scanned(scan_video(content.data), content.pin, content.seconds)
    except VideoError as error:
        if is_transient(error.__cause__):
            raise TransientError(f"sample {index} cannot be read here and now ({error})") from None
        return Scanned(error, content.pin, content.seconds)


class _Content(NamedTuple):
    """The bytes of a sample's video, or of the first picture of a folder of frames.

    Attributes:
        data: The bytes.
        seconds: Start and end of the sample's clip, in seconds; None for the whole video.
    """

    data: Payload
    seconds: tuple[float, float] | None = None

    @property
    def pin(self) -> int:
        data = self.data
        try:
            ends = copied(data[:_PIN_BYTES]), copied(data[-_PIN_BYTES:])
        # With 0 the video is scanned again when it is needed.
        except OSError:
            return 0
        pin = zlib.crc32(ends[1], zlib.crc32(ends[0], len(data)))
        return zlib.crc32(repr(self.seconds).encode(), pin) if self.seconds else pin


def _contents(dataset: Dataset, samples: NDArray[np.int64]) -> list[_Content | VideoError]:
    """Return the bytes of the videos of some samples; for folders of frames, of their first pictures."""
    whole, indices = _in_unselected(dataset, samples)
    if not isinstance(whole, FrameFolderDataset):
        return [_video_of(entry) for entry in lasting(dataset.fetch(samples))]
    return [_first_picture(whole, index) for index in indices.tolist()]


def _first_picture(dataset: FrameFolderDataset, index: int) -> _Content | VideoError:
    [entry] = lasting(dataset.fetch([index]))
    if isinstance(entry, BadSample):
        return VideoError(entry.reason)
    [picture] = dataset.fetch_frames(index, [0])
    return VideoError(picture.reason) if isinstance(picture, BadSample) else _Content(picture)


def _video_of(entry: Sample | BadSample) -> _Content | VideoError:
    if isinstance(entry, BadSample):
        return VideoError(entry.reason)
    data = entry.video
    if data is None:
        return VideoError(f"it has no field with a video, only {', '.join(entry.fields)}")
    try:
        return _Content(data, read_seconds(entry))
    except VideoError as error:
        return error


def _in_unselected(
    dataset: Dataset, samples: NDArray[np.int64]
) -> tuple[Dataset, NDArray[np.int64]]:
    """Return the original dataset of nested selections, and the indices in it of some samples.

    A mixture of several datasets is returned unchanged.

    Args:
        dataset: The dataset, which may be a selection.
        samples: int64 [n], indices in `dataset`.
    """
    found = origin_of(dataset, samples)
    # A mixture of several has an index of its own.
    return (found[0].dataset, found[0].indices) if len(found) == 1 else (dataset, samples)


def _videos_of(dataset: Dataset) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the index of the first sample of each video, and the index of each sample's video."""
    every = np.arange(len(dataset))
    whole, indices = _in_unselected(dataset, every)
    if not isinstance(whole, ClipListDataset):
        return every, every
    files = whole.videos[1][indices]
    _, firsts, videos = np.unique(files, return_index=True, return_inverse=True)
    return firsts, videos


def _paths(dataset: Dataset) -> list[Path]:
    paths = [cache_folder() / f"{dataset.fingerprint}{SUFFIX}"]
    source = getattr(dataset, "source", None)
    if isinstance(source, Path) and source.name == "..":
        source = source.resolve()
    if isinstance(source, Path) and source.name:
        paths.insert(0, source.with_name(f"{source.name}{SUFFIX}"))
    return paths


def _find(dataset: Dataset) -> Path | None:
    """Return the path of an existing index file that fits the dataset; None if there is none."""
    fingerprint = dataset.fingerprint
    for path in _paths(dataset):
        try:
            store = Store(path, fingerprint)
        except (OSError, DamagedFileError):
            continue
        if _fits(store, dataset):
            return path
    return None


def _fits(store: Store, dataset: Dataset) -> bool:
    firsts, _ = _videos_of(dataset)
    if len(firsts) != len(store.rows):
        return False
    probed = np.unique(np.linspace(0, len(firsts) - 1, _NUM_PROBES).astype(np.int64))
    probed = probed[store.rows["pin"][probed] != 0]
    contents = _contents(dataset, firsts[probed])
    for video, content in zip(probed.tolist(), contents, strict=True):
        if isinstance(content, VideoError) or content.pin != store.rows["pin"][video]:
            return False
    return True


def _open(dataset: Dataset, progress: Progress) -> Path:
    """Return the path of an index file that fits the dataset; if there is none, build it.

    Raises:
        IndexFileError: No writable folder was found for the index file.
    """
    return find_or_build(
        _paths(dataset),
        lambda: _find(dataset),
        lambda part: _build(dataset, part, progress),
        "the index of the videos",
    )


def _build(dataset: Dataset, part: PartFile, progress: Progress) -> Path:
    with foreign_errors():
        fingerprint = dataset.fingerprint
        firsts, _ = _videos_of(dataset)
        progress(0, len(firsts))
    writer = StoreWriter(part.file.fileno(), len(firsts))
    for done, (video, scanned) in enumerate(_scan_all(dataset, firsts), start=1):
        writer.add(video, *scanned)
        with foreign_errors():
            progress(done, len(firsts))
    writer.finish(fingerprint)
    part.publish(mode=0o644, to_disk=True)
    return part.path


def _scan_all(dataset: Dataset, firsts: NDArray[np.int64]) -> Iterator[tuple[int, Scanned]]:
    """Scan all videos in threads, and yield the index and the result of each video when it is done.

    Args:
        dataset: The dataset.
        firsts: int64 [videos], index of the first sample of each video.
    """
    num_threads = os.cpu_count() or 1

    def scan(start: int) -> list[tuple[int, Scanned]]:
        some = firsts[start : start + _BATCH].tolist()
        return [(start + at, scan_sample(dataset, first)) for at, first in enumerate(some)]

    starts = iter(range(0, len(firsts), _BATCH))
    with CountingThreads(num_threads, "videos") as pool:
        # Only a few tasks ahead, so that results do not pile up behind a slow video.
        running = {pool.submit(scan, start) for start in islice(starts, 2 * num_threads)}
        try:
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    with foreign_errors():
                        scanned = future.result()
                    yield from scanned
                running |= {pool.submit(scan, start) for start in islice(starts, len(done))}
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
