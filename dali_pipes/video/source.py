"""Define the interface to the clips of a dataset, for selections, mixtures and the frames of LeRobot datasets."""

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import accumulate
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dali_pipes.errors import LoaderError
from dali_pipes.video.clips import Clips, OnDamagedVideo
from dali_pipes.video.packets import Part
from gpu_aug.views import Views
from readers import Dataset
from readers.datasets.dataset import Balanced, Subset
from readers.datasets.mixture import Mixture
from readers.formats.lerobot.cameras import Camera
from readers.formats.lerobot.dataset import LeRobotDataset
from readers.formats.lerobot.episodes import Place
from readers.sample import SourceError
from readers.video import VideoError
from readers.video.frame_folder import FRAMES_CODEC

_Rows = NDArray[np.int64]


class Windows:
    """The pictures of a LeRobot dataset's samples, as clips.

    Each sample is a clip of the pictures of all cameras; see ClipSource. The video of a clip is its episode.

    Args:
        dataset: The dataset, which chooses the frames.

    Attributes:
        num_frames: Count of pictures of a sample, over all cameras.
        on_damaged_video: Always "raise": clips with a damaged video are bad samples.
        cameras: For each camera's name, the range of its pictures among all pictures of a sample.
        sizes: Height and width of each camera, from meta/info.json.
    """

    def __init__(self, dataset: LeRobotDataset) -> None:
        self._dataset = dataset
        self.on_damaged_video: OnDamagedVideo = "raise"
        self.cameras: dict[str, slice] = {}
        self._columns: list[tuple[Camera, slice]] = []
        self.num_frames = 0
        for number, name in enumerate(dataset.cameras):
            start = self.num_frames
            self.num_frames += dataset.num_frames[name]
            self.cameras[name] = slice(start, self.num_frames)
            self._columns.append((dataset.camera(number), self.cameras[name]))
        self.sizes = {camera.size for camera, _ in self._columns}

    def __reduce__(self) -> tuple[type["Windows"], tuple[LeRobotDataset]]:
        return Windows, (self._dataset,)

    def videos(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the episode of each sample."""
        return self._dataset.episodes_of(indices)

    def parts(self, index: int) -> list[Part]:
        """Return the parts of a clip, one per camera and video."""
        place = self._dataset.place(index)
        return [self._part(camera, columns, place) for camera, columns in self._columns]

    def choose(
        self,
        seed: int,
        epoch: int,
        indices: NDArray[np.int64],
        identities: NDArray[np.int64],
        speed: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """Return the frames that the dataset chooses, without random numbers."""
        del seed, epoch, identities, speed
        chosen = np.full((len(indices), self.num_frames), -1)
        for row, index in enumerate(indices.tolist()):
            place = self._dataset.place(index)
            for camera, columns in self._columns:
                # -1 remains: the sample is bad already, or becomes bad later (its tables were evicted and could not be read again).
                with suppress(VideoError, SourceError, OSError):
                    chosen[row, columns] = camera.shown(place).frames
        return chosen

    def peculiar(self) -> dict[str, int]:
        """Return for each peculiarity how many videos have it; pictures in tables have no peculiarities."""
        return self._dataset.videos.peculiar

    def _part(self, camera: Camera, columns: slice, place: Place) -> Part:
        info = camera.info(place)
        if isinstance(info, VideoError):
            raise info
        field = "" if info.codec == FRAMES_CODEC else f"{camera.name}.mp4"
        read = partial(camera.pictures, place)
        return Part(columns, camera.video(place), info, read, field, camera.source(place))


class ClipSource(Protocol):
    """Metadata of the clips of a dataset. Indices are those of the dataset.

    Attributes:
        num_frames: Frames of a clip, T.
        on_damaged_video: See Clips.
        cameras: Range of the frames of each camera, by name; empty if each clip comes from one video.
        sizes: Height and width of each camera; empty if each clip comes from one video.
    """

    num_frames: int
    on_damaged_video: OnDamagedVideo
    cameras: dict[str, slice]
    sizes: set[tuple[int, int]]

    def videos(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return for each clip the index of its video, int64 [n]."""

    def parts(self, index: int) -> list[Part]:
        """Return the parts of a clip, one per video that it shows.

        Raises:
            VideoError: A video cannot be read.
        """

    def choose(
        self,
        seed: int,
        epoch: int,
        indices: NDArray[np.int64],
        identities: NDArray[np.int64],
        speed: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """Choose the frames of clips.

        Args:
            seed: Not negative.
            epoch: Not negative.
            indices: int64 [n], the clips.
            identities: int64 [n], numbers from which random starts are drawn.
            speed: int64 [n], factors on the step from frame to frame, in units of 1 / SPEED_UNIT.

        Returns:
            int64 [n, T], frame numbers in presentation order; 0 for a video that cannot be read, -1 if the frames of a
            sample cannot be found, which makes it a bad sample.
        """

    def peculiar(self) -> dict[str, int]:
        """Return for each peculiarity how many videos of the dataset have it; see `VideoIndex.peculiar`."""


def find_clips(dataset: Dataset) -> ClipSource | None:
    """Return the clips of a dataset; None if its samples are not clips.

    Raises:
        LoaderError: The dataset mixes clips with other samples, or with clips that do not fit together.
    """
    if isinstance(dataset, Clips):
        return dataset
    if isinstance(dataset, LeRobotDataset):
        return Windows(dataset)
    if isinstance(dataset, Balanced):
        return find_clips(dataset.whole)
    if isinstance(dataset, Subset):
        whole = find_clips(dataset.whole)
        return None if whole is None else ComposedClips(dataset, [whole])
    if isinstance(dataset, Mixture):
        parts = [find_clips(part) for part in dataset.datasets]
        of_clips = [part for part in parts if part is not None]
        if of_clips and len(of_clips) < len(parts):
            raise LoaderError(
                "the dataset mixes clips with images, which make no batch together; mix datasets of clips"
            )
        return ComposedClips(dataset, of_clips) if of_clips else None
    return None


def clip_seconds(
    clips: ClipSource, indices: NDArray[np.int64], frames: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the display times of frames of clips, counted from the first frame of each video.

    Args:
        clips: The clips.
        indices: int64 [n], the clips.
        frames: int64 [n, T], frame numbers in presentation order.

    Returns:
        float64 [n, T]; 0 for a clip whose videos cannot be read.
    """
    seconds = np.zeros(frames.shape)
    for row, index in enumerate(indices.tolist()):
        # Zeros remain for a clip whose video cannot be read: the fetch or the decode stage records it as a bad sample.
        with suppress(VideoError):
            for part in clips.parts(index):
                seconds[row, part.columns] = part.info.seconds[frames[row, part.columns]]
    return seconds


def require_fits_clips(views: Views, clips: ClipSource | None, decoder: object) -> None:
    """Raise if a recipe or the decoder does not support the samples, which may be images, clips or a robot's cameras.

    Raises:
        LoaderError: The recipe moves frames in time but samples are images or frames with actions; or cameras keep
            several sizes; or DALI would have to decode cameras.
    """
    operations = views.recipes[0].temporal_operations
    if operations and (clips is None or clips.cameras):
        name = type(operations[0]).__name__
        raise LoaderError(
            f"{name} moves frames in time, but the samples are {'images' if clips is None else 'frames with actions'}; "
            f"give the loader Clips(dataset, ...), or take {name} out of the recipe (robots: see delta_timestamps)"
        )
    if clips is None or not clips.cameras:
        return
    if len(clips.sizes) > 1 and any(recipe.decode_size is None for recipe in views.recipes):
        sizes = " and ".join(f"{height}x{width}" for height, width in sorted(clips.sizes))
        raise LoaderError(
            f"the cameras have {sizes} pixels, and the recipe gives them no one size at its beginning; begin with "
            f"Resize(size) or RandomResizedCrop(size), or take one camera (cameras=...)"
        )
    if decoder not in ("auto", "cpu"):
        raise LoaderError(
            f'decoder={decoder!r} does not decode the pictures of a robot\'s cameras; use "cpu" or "auto"'
        )


class ComposedClips:
    """Clips of a selection or a mixture; see ClipSource. Video v of dataset d of n datasets has the index v * n + d.

    Args:
        dataset: A selection, which has one part, or a mixture.
        parts: For each underlying dataset, its clips.

    Raises:
        LoaderError: The clips of the datasets differ in length, or in the handling of damaged videos.
    """

    def __init__(self, dataset: Subset | Mixture, parts: list[ClipSource]) -> None:
        for name in ("num_frames", "on_damaged_video", "cameras"):
            values = [getattr(part, name) for part in parts]
            if any(value != values[0] for value in values):
                raise LoaderError(
                    f"the dataset mixes clips with {name}={values}, which make no batch together; make all "
                    "Clips with one value"
                )
        self.num_frames, self.on_damaged_video = parts[0].num_frames, parts[0].on_damaged_video
        self.cameras = parts[0].cameras
        self.sizes = set().union(*(part.sizes for part in parts))
        self._dataset, self._parts = dataset, parts

    def videos(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return for each clip the index of its video, int64 [n]."""
        numbers = np.empty(len(indices), np.int64)
        for part, rows, own in self._by_part(indices):
            numbers[rows] = self._parts[part].videos(own) * len(self._parts) + part
        return numbers

    def parts(self, index: int) -> list[Part]:
        """Return the parts of a clip."""
        [(part, _, own)] = self._by_part(np.array([index]))
        return [
            one._replace(video=(part, one.video)) for one in self._parts[part].parts(int(own[0]))
        ]

    def choose(
        self, seed: int, epoch: int, indices: NDArray[np.int64], *drawn: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Choose the frames of clips, each by the rules of its underlying dataset."""
        chosen = np.empty((len(indices), self.num_frames), np.int64)
        for part, rows, own in self._by_part(indices):
            chosen[rows] = self._parts[part].choose(seed, epoch, own, *(one[rows] for one in drawn))
        return chosen

    def peculiar(self) -> dict[str, int]:
        """Return for each peculiarity how many videos of all underlying datasets have it."""
        counts = [part.peculiar() for part in self._parts]
        return {name: sum(one[name] for one in counts) for name in counts[0]}

    def _by_part(self, indices: NDArray[np.int64]) -> Iterator[tuple[int, _Rows, _Rows]]:
        """Yield the index of each underlying dataset, the rows that belong to it, and their indices in it."""
        if isinstance(self._dataset, Subset):
            whole = np.asarray(self._dataset.indices_in_whole(indices), np.int64)
            yield 0, np.arange(len(whole)), whole
            return
        starts = np.array([*accumulate(map(len, self._dataset.datasets), initial=0)])
        of_row = np.searchsorted(starts, indices, side="right") - 1
        for part in np.unique(of_row).tolist():
            rows = np.flatnonzero(of_row == part)
            yield part, rows, indices[rows] - starts[part]
