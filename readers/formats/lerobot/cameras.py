"""Cameras of a LeRobot dataset, which find the pictures of a frame in videos or tables."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from readers.formats.lerobot.episodes import Episodes, Place, Places
from readers.formats.lerobot.meta import TIME, Feature
from readers.formats.lerobot.tables import Frames
from readers.formats.lerobot.values import clamp_rows, picture_ending
from readers.formats.lerobot.videos import Videos
from readers.formats.parquet.dataset import ParquetDataset
from readers.formats.parquet.files import Location
from readers.sample import BadSample, Payload, SourceError
from readers.storage.whole_files import map_whole
from readers.video.containers.open import VideoError
from readers.video.frame_folder import FRAMES_CODEC
from readers.video.info import UNSPECIFIED_MATRIX, VideoInfo

_NOW = np.zeros(1, np.int64)  # offsets of a camera without delta_timestamps: the current frame only


class Shown(NamedTuple):
    """The pictures of one camera that belong to a sample.

    Attributes:
        info: Metadata of the video; if pictures lie in tables, of the episode as a video of the codec `FRAMES_CODEC`.
        frames: Indices of the pictures in the video or episode, int64 [T].
    """

    info: VideoInfo
    frames: NDArray[np.int64]


class Camera(ABC):
    """Base class of cameras; a camera is one feature of pictures in the dataset.

    Args:
        feature: Description of the camera in meta/info.json.
        offsets: Offsets, in frames, of the pictures that belong to a sample, int64 [T]; None for the current frame only.
    """

    def __init__(self, feature: Feature, offsets: NDArray[np.int64] | None) -> None:
        self.name, self.size = feature.name, (feature.shape[0], feature.shape[1])
        self._offsets = _NOW if offsets is None else offsets

    @abstractmethod
    def video(self, place: Place) -> int:
        """Return the index of the video with the pictures of a sample; of the episode if tables store the pictures."""

    def source(self, place: Place) -> str:
        """Return the name of the file that holds the pictures of a sample, or of the camera if the tables do; for errors."""
        del place
        return self.name

    @abstractmethod
    def info(self, place: Place) -> VideoInfo | VideoError:
        """Return the metadata of the video or episode that holds the pictures of a sample; a VideoError if it cannot be read."""

    @abstractmethod
    def shown(self, place: Place) -> Shown:
        """Return which pictures belong to a sample.

        Raises:
            SourceError: The tables cannot be read.
            VideoError: The video cannot be read, or has no frame at a time stamp of the sample.
            OSError: A file cannot be read.
        """

    @abstractmethod
    def payload(self, place: Place, shown: Shown) -> tuple[str, Payload]:
        """Return name and content of the sample's field for pictures: the complete video, mapped, or the first picture.

        Raises:
            SourceError: The pictures cannot be read.
            OSError: A file cannot be read.
        """

    def pictures(self, place: Place, frames: NDArray[np.int64]) -> list[Payload | BadSample]:
        """Return the encoded pictures of an episode in tables, by their indices in the episode.

        Raises:
            TypeError: The pictures lie in a video.
        """
        raise TypeError(f"the pictures of {self.name} at {place.key} {frames} lie in a video")

    def _rows(self, place: Place) -> NDArray[np.int64]:
        return clamp_rows(place.row, place.start, place.stop, self._offsets)[0]


class VideoCamera(Camera):
    """A camera whose pictures are frames of videos.

    Args:
        feature: See `Camera`.
        offsets: See `Camera`.
        episodes: All episodes of the dataset.
        videos: All videos of the dataset.
        frames: Reads the time stamps of frames.
        tolerance_s: Largest allowed difference between the time stamps of a frame and its picture, in seconds.
    """

    def __init__(
        self,
        feature: Feature,
        offsets: NDArray[np.int64] | None,
        *,
        episodes: Episodes,
        videos: Videos,
        frames: Frames,
        tolerance_s: float,
    ) -> None:
        super().__init__(feature, offsets)
        self._numbers, self._starts = episodes.videos[self.name], episodes.starts[self.name]
        self._videos, self._frames, self._tolerance_s = videos, frames, tolerance_s

    def video(self, place: Place) -> int:
        """Return the index of the video that holds the pictures of a sample."""
        return int(self._numbers[place.episode])

    def source(self, place: Place) -> str:
        """Return the name of the video that holds the pictures of a sample."""
        return self._videos.files.name(self.video(place))

    def info(self, place: Place) -> VideoInfo | VideoError:
        """Return the metadata of the video that holds the pictures of a sample; a VideoError if it cannot be read."""
        return self._videos.info(self.video(place))

    def shown(self, place: Place) -> Shown:
        """Return the video frames that are shown at a sample's time stamps; see `Camera.shown` for errors."""
        stamps = self._frames.values(place.table, TIME, self._rows(place))
        # The rounding error of 4000 s in float32 is as large as the usual tolerance, so it is added.
        tolerance = self._tolerance_s + np.spacing(np.abs(stamps)).astype(np.float64)
        seconds = float(self._starts[place.episode]) + stamps.astype(np.float64)
        try:
            return Shown(*self._videos.frames_at(self.video(place), seconds, tolerance))
        except VideoError as error:
            raise VideoError(f"{self.source(place)}: {error}") from None

    def payload(self, place: Place, shown: Shown) -> tuple[str, Payload]:
        """Return name and content of the field for the complete video, mapped; see `Camera.payload` for errors."""
        del shown
        return f"{self.name}.mp4", map_whole(self._videos.files.path(self.video(place)))


class TableCamera(Camera):
    """A camera whose pictures lie in the tables.

    Args:
        feature: See `Camera`.
        offsets: See `Camera`.
        places: The episodes and their tables.
        root: The folder of the dataset.
        fps: Frames per second.
        decoded_bytes: Maximum size in bytes of the decoded values that stay in memory.
    """

    def __init__(
        self,
        feature: Feature,
        offsets: NDArray[np.int64] | None,
        *,
        places: Places,
        root: str,
        fps: float,
        decoded_bytes: int,
    ) -> None:
        super().__init__(feature, offsets)
        files: Sequence[Location] = [
            Location(f"{root}/{table.name}", table.name, {})
            for table in places.tables
            if table not in places.unreadable
        ]
        options = partial(ParquetDataset, image=self.name, columns=[self.name])
        self._table, self._places = options(files, decoded_bytes=decoded_bytes), places
        self._time_base = 1 / Fraction(fps).limit_denominator(100_000)

    def video(self, place: Place) -> int:
        """Return the index of the episode that holds the pictures of a sample."""
        return place.episode

    def info(self, place: Place) -> VideoInfo:
        """Return the metadata of the episode of a sample, in the form of a video."""
        return _still_info(place.stop - place.start, self.size, self._time_base)

    def shown(self, place: Place) -> Shown:
        """Return the pictures of an episode that belong to a sample; see `Camera.shown` for errors."""
        return Shown(self.info(place), self._rows(place) - place.start)

    def payload(self, place: Place, shown: Shown) -> tuple[str, Payload]:
        """Return name and content of the field for a sample's first picture; see `Camera.payload` for errors."""
        [picture] = self.pictures(place, shown.frames[:1])
        if isinstance(picture, BadSample):
            raise SourceError(picture.reason)
        return f"{self.name}.{picture_ending(picture)}", picture

    def pictures(self, place: Place, frames: NDArray[np.int64]) -> list[Payload | BadSample]:
        """Return the encoded pictures of an episode by their indices in it, a BadSample for one that cannot be read."""
        rows = self._places.in_tables(place.table, place.start + frames)
        samples = self._table.fetch(rows)
        return [one if isinstance(one, BadSample) else one.fields[self.name] for one in samples]


def _still_info(num_frames: int, size: tuple[int, int], time_base: Fraction) -> VideoInfo:
    return VideoInfo(
        container="parquet",
        codec=FRAMES_CODEC,
        decoder="",
        codec_tag="",
        extradata=b"",
        height=size[0],
        width=size[1],
        rotation=0,
        pixel_format="",
        matrix=UNSPECIFIED_MATRIX,
        full_range=True,
        time_base=time_base,
        last_duration=1,
        has_audio=False,
        damage="",
        packet_pts=np.arange(num_frames, dtype=np.int64),
        packet_offsets=np.empty(0, np.int64),
        packet_sizes=np.zeros(num_frames, np.int32),
        keyframes=np.arange(num_frames, dtype=np.int64),
    )
