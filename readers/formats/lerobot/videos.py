"""Videos of a LeRobot dataset, and lookup of their frames by time stamp."""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Self, cast

import numpy as np
from numpy.typing import NDArray

from readers.formats.files import FileDataset
from readers.formats.files.described import FilesBelow
from readers.formats.lerobot.episodes import Episodes
from readers.formats.lerobot.meta import Root
from readers.sample import Payload, SourceError
from readers.storage.blob import Blob, BlobPayload
from readers.storage.unreadable import OptionalFile, size_or_missing
from readers.storage.whole_files import map_whole
from readers.video.containers.open import VideoError
from readers.video.index import VideoIndex
from readers.video.info import WORDS, VideoInfo

_SIZE_THREADS = 32  # remote videos whose sizes are requested at a time; an answer takes some 50 ms
_MOST_KNOWN = 64  # videos whose time stamps stay in memory: 8 bytes per frame


class VideoFiles(FileDataset):
    """A dataset whose samples are the video files of all cameras.

    Attributes:
        source: Path of the folder ``videos``; the index lies next to it. None at a URL: the index lies in the cache folder.
    """

    def __init__(self, root: Root, names: Sequence[str]) -> None:
        self.source = root / "videos" if isinstance(root, Path) else None
        self._root = root
        # Each remote video is opened once, so that all reads find it in one state.
        self._opened: dict[str, Blob] = {}
        super().__init__(root, names, [-1] * len(names))

    def name(self, number: int) -> str:
        """Return the name of the video with this index, relative to the dataset's folder."""
        return str(self._names[number])

    def payload(self, number: int) -> Payload:
        """Return the content of the video with this index: mapped, or at a URL a `BlobPayload`.

        Raises:
            OSError: The file cannot be opened.
        """
        return self._payload(self._prefix + self.name(number))

    def sizes(self, numbers: Iterable[int]) -> list[int]:
        """Return the sizes in bytes of the videos with these indices, -1 for missing ones.

        Raises:
            SourceError: The storage failed, so that it is unknown whether a file exists.
        """
        own = list(numbers)
        paths = {number: self._prefix + self.name(number) for number in own}
        if isinstance(self._root, Path):
            size_of = {number: size_or_missing(path) for number, path in paths.items()}
        else:
            from readers.storage.remote.requests import pool

            sizes = pool("sizes", _SIZE_THREADS).map(self._remote_size, paths.values())
            size_of = dict(zip(paths, sizes, strict=True))
        return [size_of[number] for number in own]

    @cached_property
    def _sizes(self) -> NDArray[np.int64]:
        return np.array(self.sizes(range(len(self))), np.int64)

    def _remote_size(self, path: str) -> int:
        with OptionalFile(path):
            return len(self._payload(path))
        return -1

    def _payload(self, path: str) -> Payload:
        if isinstance(self._root, Path):
            return map_whole(path)
        if path not in self._opened:
            from readers.storage.remote import find_remote

            url = self._root / path.removeprefix(self._prefix)
            self._opened.setdefault(path, find_remote(url))
        # Readers of videos accept it as a payload, and read slices of it.
        return cast("Payload", BlobPayload(self._opened[path]))


class Shown(NamedTuple):
    """The pictures of one camera that belong to a sample.

    Attributes:
        info: Metadata of the video; if pictures lie in tables, of the episode as a video of the codec `FRAMES_CODEC`.
        frames: Indices of the pictures in the video or episode, in the order of presentation, int64 [T].
    """

    info: VideoInfo
    frames: NDArray[np.int64]


class Videos:
    """Metadata and time stamps of the videos in use, which are indexed on first use.

    Args:
        files: All videos of the dataset.
        wanted: Indices in `files` of the videos in use, int64 [W], ascending.
    """

    def __init__(self, files: VideoFiles, wanted: NDArray[np.int64]) -> None:
        self.files = files
        self._wanted = wanted
        self._lock = threading.Lock()
        self._index: VideoIndex | None = None
        self._known: OrderedDict[int, tuple[VideoInfo, NDArray[np.float64]]] = OrderedDict()

    @classmethod
    def of_episodes(
        cls, root: Root, episodes: Episodes, taken: NDArray[np.int64], cameras: Sequence[str]
    ) -> Self:
        """Return the videos of some episodes and cameras.

        Args:
            root: Folder of the dataset.
            episodes: All episodes.
            taken: Indices of the episodes in use, int64 [n].
            cameras: Names of the cameras in use.

        Raises:
            SourceError: The name of a video leads out of the dataset's folder.
        """
        numbers = [episodes.videos[one][taken] for one in cameras if one in episodes.videos]
        wanted = np.unique(np.concatenate([np.empty(0, np.int64), *numbers]))
        below = FilesBelow(root, "the folder of the dataset")
        try:
            names = [below.name(name) for name in episodes.video_names]
        except ValueError as error:
            raise SourceError(f"{root}: {error}") from None
        return cls(VideoFiles(root, names), wanted)

    @property
    def index(self) -> VideoIndex:
        """The index of the videos in use, made at the first access; see `VideoIndex.open` for errors."""
        with self._lock:
            if self._index is None:
                every = len(self._wanted) == len(self.files)
                self._index = VideoIndex.open(
                    self.files if every else self.files.take(self._wanted)
                )
            return self._index

    def open(self) -> None:
        """Index the videos in use unless they are indexed; see `VideoIndex.open` for errors."""
        if len(self._wanted):
            _ = self.index

    @property
    def peculiar(self) -> dict[str, int]:
        """Counts of videos with peculiarities that users should know; see `VideoIndex.peculiar`."""
        return self.index.peculiar if len(self._wanted) else dict.fromkeys(WORDS, 0)

    def info(self, video: int) -> VideoInfo | VideoError:
        """Return the metadata of the video with this index, or a VideoError if the file is no readable video."""
        known = self._look(video)
        return known if isinstance(known, VideoError) else known[0]

    def frames_at(
        self, video: int, seconds: NDArray[np.float64], tolerance: NDArray[np.float64]
    ) -> list[Shown | VideoError]:
        """Return the frames of a video whose time stamps are nearest to the given times of several samples.

        Args:
            video: Index of the video in `files`.
            seconds: Times in the video's container, float64 [n, T], in seconds.
            tolerance: Largest allowed difference from the time stamp of a frame, float64 [n, T], in seconds.

        Returns:
            For each sample its frames; or an error if the file is no readable video, or no frame lies within the tolerance
            of one of the sample's times.
        """
        known = self._look(video)
        if isinstance(known, VideoError):
            return [known] * len(seconds)
        info, shown = known
        behind = np.searchsorted(shown, seconds).clip(1, max(len(shown) - 1, 1))
        behind = np.minimum(behind, len(shown) - 1)
        before = np.maximum(behind - 1, 0)
        nearer = seconds - shown[before] < shown[behind] - seconds
        frames = np.where(nearer, before, behind).astype(np.int64)
        off = np.abs(shown[frames] - seconds) - tolerance
        found: list[Shown | VideoError] = [Shown(info, one) for one in frames]
        for row in np.flatnonzero(~(off <= 0).all(axis=1)).tolist():  # a time may be NaN
            wrong = int(np.argmax(off[row]))
            reason = _no_frame(float(seconds[row, wrong]), shown, float(tolerance[row, wrong]))
            found[row] = VideoError(f"{reason}; {info.damage}" if info.damage else reason)
        return found

    def _look(self, video: int) -> tuple[VideoInfo, NDArray[np.float64]] | VideoError:
        with self._lock:
            if video in self._known:
                self._known.move_to_end(video)
                return self._known[video]
        info = self.index[int(np.searchsorted(self._wanted, video))]
        if isinstance(info, VideoError):
            return info
        base = info.time_base
        # Integers are multiplied before the division, so each time is rounded once.
        known = info, info.pts * base.numerator / np.float64(base.denominator)
        with self._lock:
            self._known[video] = known
            if len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)
        return known


def _no_frame(seconds: float, shown: NDArray[np.float64], tolerance: float) -> str:
    last = float(shown[-1])
    if seconds > last:
        return f"its time stamp {seconds:.4f} s lies beyond the video, whose last frame is shown at {last:.4f} s"
    nearest = float(shown[int(np.argmin(np.abs(shown - seconds)))])
    return (
        f"the video has no frame at {seconds:.4f} s within tolerance_s={tolerance:g}: the nearest is shown at "
        f"{nearest:.4f} s"
    )
