"""Cameras of a LeRobot dataset, which find the pictures of a frame in videos or tables."""

from abc import ABC, abstractmethod
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.formats.lerobot.episodes import Episodes, Place, Places
from readers.formats.lerobot.frame_batch import NOW, READ_ERRORS, FrameBatch, ReadError
from readers.formats.lerobot.meta import TIME, Feature
from readers.formats.lerobot.values import picture_ending
from readers.formats.lerobot.videos import Shown, Videos
from readers.formats.parquet.dataset import ParquetDataset
from readers.sample import BadSample, Payload, SourceError
from readers.video.containers.open import VideoError
from readers.video.frame_folder import FRAMES_CODEC
from readers.video.info import UNSPECIFIED_MATRIX, VideoInfo


class Camera(ABC):
    """Base class of cameras; a camera is one feature of pictures in the dataset.

    Args:
        feature: Description of the camera in meta/info.json.
        offsets: Offsets, in frames, of the pictures that belong to a sample, int64 [T]; None for the current frame only.
    """

    def __init__(self, feature: Feature, offsets: NDArray[np.int64] | None) -> None:
        self.name, self.size = feature.name, (feature.shape[0], feature.shape[1])
        self.depth = feature.depth
        self._offsets = NOW if offsets is None else offsets

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
    def shown(self, batch: FrameBatch) -> list[Shown | VideoError | ReadError]:
        """Return which pictures belong to each sample of a batch, or the error that makes the sample bad.

        A VideoError says that the video cannot be read, or has no frame at a time stamp of the sample; other errors say that
        the tables cannot be read.
        """

    @abstractmethod
    def payload(self, place: Place, shown: Shown) -> tuple[str, Payload]:
        """Return name and content of the sample's field for pictures: the complete video, or the first picture.

        A video is mapped, or at a URL a `readers.storage.blob.BlobPayload`.

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


class VideoCamera(Camera):
    """A camera whose pictures are frames of videos.

    Args:
        feature: See `Camera`.
        offsets: See `Camera`.
        episodes: All episodes of the dataset.
        videos: All videos of the dataset.
        tolerance_s: Largest allowed difference between the time stamps of a frame and its picture, in seconds.
    """

    def __init__(
        self,
        feature: Feature,
        offsets: NDArray[np.int64] | None,
        *,
        episodes: Episodes,
        videos: Videos,
        tolerance_s: float,
    ) -> None:
        super().__init__(feature, offsets)
        self._numbers, self._starts = episodes.videos[self.name], episodes.starts[self.name]
        self._videos, self._tolerance_s = videos, tolerance_s

    def video(self, place: Place) -> int:
        """Return the index of the video that holds the pictures of a sample."""
        return int(self._numbers[place.episode])

    def source(self, place: Place) -> str:
        """Return the name of the video that holds the pictures of a sample."""
        return self._videos.files.name(self.video(place))

    def info(self, place: Place) -> VideoInfo | VideoError:
        """Return the metadata of the video that holds the pictures of a sample; a VideoError if it cannot be read."""
        return self._videos.info(self.video(place))

    def shown(self, batch: FrameBatch) -> list[Shown | VideoError | ReadError]:
        """Return the video frames that are shown at the time stamps of each sample; see `Camera.shown`."""
        found: dict[int, Shown | VideoError | ReadError] = {}
        of_video: dict[int, dict[int, NDArray[Any]]] = {}
        for number, place in enumerate(batch.places):
            try:
                stamps = batch.values(number, TIME, self._offsets)
            except READ_ERRORS as error:
                found[number] = error
            else:
                of_video.setdefault(self.video(place), {})[number] = stamps
        for video, stamps_of in of_video.items():
            times = np.array([*stamps_of.values()])
            # The rounding error of 4000 s in float32 is as large as the usual tolerance, so it is added.
            tolerance = self._tolerance_s + np.spacing(np.abs(times)).astype(np.float64)
            starts = self._starts[[batch.places[number].episode for number in stamps_of]]
            seconds = starts[:, np.newaxis] + times.astype(np.float64)
            try:
                chosen = self._videos.frames_at(video, seconds, tolerance)
            except READ_ERRORS as error:  # of the index of the videos
                found |= dict.fromkeys(stamps_of, error)
                continue
            for number, one in zip(stamps_of, chosen, strict=True):
                found[number] = one
                if isinstance(one, VideoError):
                    named = VideoError(f"{self.source(batch.places[number])}: {one}")
                    named.__cause__ = one  # by which the sample counts as transient
                    found[number] = named
        return [found[number] for number in range(len(batch.places))]

    def payload(self, place: Place, shown: Shown) -> tuple[str, Payload]:
        """Return name and content of the field for the complete video, mapped or remote; see `Camera.payload` for errors."""
        del shown
        return f"{self.name}.mp4", self._videos.files.payload(self.video(place))


class TableCamera(Camera):
    """A camera whose pictures lie in the tables.

    Args:
        feature: See `Camera`.
        offsets: See `Camera`.
        places: The episodes and their tables.
        fps: Frames per second.
        decoded_bytes: Maximum size in bytes of the decoded values that stay in memory.
    """

    def __init__(
        self,
        feature: Feature,
        offsets: NDArray[np.int64] | None,
        *,
        places: Places,
        fps: float,
        decoded_bytes: int,
    ) -> None:
        super().__init__(feature, offsets)
        self._column = feature.column
        files = [table.location for table in places.tables if table not in places.unreadable]
        options = partial(ParquetDataset, image=self._column, columns=[self._column])
        self._table, self._places = options(files, decoded_bytes=decoded_bytes), places
        self._time_base = 1 / Fraction(fps).limit_denominator(100_000)

    def video(self, place: Place) -> int:
        """Return the index of the episode that holds the pictures of a sample."""
        return place.episode

    def info(self, place: Place) -> VideoInfo:
        """Return the metadata of the episode of a sample, in the form of a video."""
        return _still_info(place.stop - place.start, self.size, self._time_base)

    def shown(self, batch: FrameBatch) -> list[Shown | VideoError | ReadError]:
        """Return the pictures of an episode that belong to each sample; there are no errors."""
        rows = batch.window(self._offsets).rows
        return [
            Shown(self.info(place), own - place.start)
            for place, own in zip(batch.places, rows, strict=True)
        ]

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
        return [one if isinstance(one, BadSample) else one.fields[self._column] for one in samples]


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
