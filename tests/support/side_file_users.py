"""Everything that writes side files, called alike by processes that meet, are killed or find no room."""

import gzip
import os
import resource
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

import readers.video.index
from readers import ReadersError, Sample
from readers.formats.mds.shard import unpacked
from readers.image.sizes import image_sizes
from readers.jpeg_seek_points.locations import CacheFile, rewrite_in_order
from readers.storage.blob import LocalBlob
from readers.storage.destination import open_destination
from readers.storage.index import Entry, Scan, open_index
from readers.storage.remote.cache import BlockCache
from readers.video import VideoIndex, VideoInfo
from tests.support.index_entries import entry_of
from tests.support.seek_point_entries import HEAD, entry

FULL_BYTES = 2500
"""Where files end on a disk that is full: each side file of `USERS` is longer, and each log shorter."""
CONTENT = bytes(range(256)) * 400


def log_work(folder: Path) -> None:
    """Note that this process makes what the side file holds, long enough that processes meet."""
    with (folder / "log").open("a") as log:
        log.write(f"{os.getpid()}\n")
    time.sleep(0.01)


class LoggedDataset:
    """A dataset of samples that know their sizes; work on it is logged."""

    class_names = ()
    fingerprint = "f" * 32

    def __init__(self, folder: Path, field: str, length: int) -> None:
        self.folder, self._field, self._length = folder, field, length

    def __len__(self) -> int:
        return self._length

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample]:
        """Return samples of three bytes."""
        if self._field == "jpg" and 0 in indices:
            log_work(self.folder)
        fields = {self._field: bytes([1, 2, 3])}
        return [Sample(int(n), str(n), fields, size=(int(n) + 1, 5)) for n in indices]


class LoggedBlob(LocalBlob):
    """A file that is read under a log."""

    def read(self, ranges: Sequence[tuple[int, int]]) -> list[Any]:
        """Return the bytes of ranges."""
        log_work(Path(self.location).parent)
        return super().read(ranges)


def use_index(folder: Path) -> str:
    """Open the index of a shard."""

    def find(_content: object, _name: str) -> Iterator[Entry]:
        log_work(folder)
        for number in range(300):
            yield Entry(str(number), (("bin", number, number + 1),), number)

    index = open_index(LocalBlob(folder / "shard"), Scan("any", 1, find)).map()
    return entry_of(index, 299).key


def use_sizes(folder: Path) -> str:
    """Read the sizes of images."""
    dataset = LoggedDataset(folder, "jpg", 5000)
    return str(image_sizes(dataset, progress=lambda *_: None)[-1, 0])


def use_videos(folder: Path) -> str:
    """Open the index of videos."""

    def scan(_data: object) -> VideoInfo:
        log_work(folder)
        steps = np.arange(90, dtype=np.int64)
        return VideoInfo(
            *("mov", "h264", "h264", "avc1", b"extra", 240, 320, 0, "yuv420p", 2, False),
            *(Fraction(1, 25), 1, False, ""),
            packet_pts=steps,
            packet_offsets=steps * 1000,
            packet_sizes=np.full(90, 999, np.int32),
            keyframes=steps[::3],
        )

    with mock.patch.object(readers.video.index, "scan_video", scan):
        dataset = LoggedDataset(folder, "mp4", 4)  # as many as one thread takes at once
        index = VideoIndex.open(dataset, progress=lambda *_: None)
        return f"{index.num_frames.sum()}/{index[3].packet_pts[-1]}"  # type: ignore[union-attr]


def use_unpacked(folder: Path) -> str:
    """Decompress a shard."""
    blob = unpacked(LoggedBlob(folder / "packed.gz"), "gz", len(CONTENT))
    [data] = blob.read([(0, len(CONTENT))])
    return str(bytes(data) == CONTENT)


def use_seek_points(_folder: Path) -> str:
    """Keep the seek points of some images, and bring their file into order."""
    entries = [entry(number) for number in range(HEAD.num_samples)]
    cache = CacheFile(HEAD)
    cache.store(entries)
    if cache.is_writable:
        rewrite_in_order(HEAD)
    file = CacheFile(HEAD).file()
    return str(file is not None and list(file.entries(0, 20)) == entries)


def use_blocks(folder: Path) -> str:
    """Read a remote file through the cache of blocks."""

    def fetch(ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        log_work(folder)
        return [CONTENT[start:stop] for start, stop in ranges]

    cache = BlockCache(Path(os.environ["GPU_AUG_CACHE"]) / "blocks", 10**7, 1 << 16)
    [data] = cache.read("a", len(CONTENT), [(5, len(CONTENT) - 5)], fetch)  # type: ignore[arg-type]
    return str(bytes(data) == CONTENT[5:-5])


def use_destination(folder: Path) -> str:
    """Write prepared data."""
    place = open_destination(os.environ["GPU_AUG_CACHE"])
    with place.create("a/data") as file:
        log_work(folder)
        file.write(CONTENT)
    return str(place.read("a/data") == CONTENT)


USERS: dict[str, Callable[[Path], str]] = {
    name.removeprefix("use_"): use for name, use in globals().items() if name.startswith("use_")
}


def prepare(folder: Path) -> None:
    """Make the data that `USERS` read."""
    folder.mkdir()
    (folder / "packed.gz").write_bytes(gzip.compress(CONTENT, mtime=0))
    (folder / "shard").write_bytes(CONTENT)


def _die_before_rename(event: str, _arguments: object) -> None:
    if event == "os.rename":
        os.kill(os.getpid(), signal.SIGKILL)


def use(name: str, folder: str, fault: str) -> str:
    """Let a user work in this process under a fault; return its name and its answer, or the class of its error.

    Args:
        name: A key of `USERS`.
        folder: Holds what `prepare` made, and the cache folder.
        fault: "none", "full", "killed-in-writing", "killed-before-renaming" or "unwritable".
    """
    os.environ["GPU_AUG_CACHE"] = "/dev/null/none" if fault == "unwritable" else f"{folder}/cache"
    if fault in ("full", "killed-in-writing"):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (FULL_BYTES, FULL_BYTES))
    if fault == "killed-in-writing":  # by the kernel, when a file would grow beyond the limit
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    if fault == "killed-before-renaming":
        sys.addaudithook(_die_before_rename)
    warnings.simplefilter("ignore")
    try:
        return f"{name} {USERS[name](Path(folder))}"
    except (OSError, ReadersError) as error:
        return f"{name} {type(error).__name__}"
