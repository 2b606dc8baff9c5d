"""The clips behind a dataset: the dataset itself, or selections and mixtures of clips."""

from collections.abc import Iterator
from itertools import accumulate
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dali_pipes.errors import LoaderError
from dali_pipes.video.clips import Clips, OnDamagedVideo
from dali_pipes.video.parts import Part
from dali_pipes.video.windows import Windows
from gpu_aug.views import Views
from readers import BadSample, Dataset
from readers.dataset import Balanced, Subset
from readers.formats.lerobot.dataset import LeRobotDataset
from readers.mixture import Mixture
from readers.sample import Payload
from readers.video import VideoError, VideoInfo

_Rows = NDArray[np.int64]


class ClipSource(Protocol):
    """Metadata of the clips of a dataset. Indices are those of the dataset.

    Attributes:
        num_frames: Frames of a clip, T.
        on_damaged_video: See Clips.
        cameras: By name, which of the frames are a camera's; empty where clips are of one video.
        sizes: Heights and widths of the cameras.
    """

    num_frames: int
    on_damaged_video: OnDamagedVideo
    cameras: dict[str, slice]
    sizes: set[tuple[int, int]]

    def videos(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return a number for the video of each clip, int64 [n]."""

    def info(self, video: int) -> VideoInfo | VideoError:
        """Return the metadata of a video, or the reason why no clip can be taken from it."""

    def parts(self, index: int) -> list[Part]:
        """Return what a clip is made of.

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
            identities: int64 [n], by which random starts are drawn.
            speed: int64 [n], what the way from frame to frame is multiplied by, in units of 1 / SPEED_UNIT.

        Returns:
            int64 [n, T], numbers in the order of presentation; 0 for what is no video.
        """

    def seconds(self, indices: NDArray[np.int64], frames: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return when frames, int64 [n, T], of clips are shown, float64 [n, T], counted from the first one on."""

    def fetch_frames(self, video: int, frames: NDArray[np.int64]) -> list[Payload | BadSample]:
        """Read encoded frames of a video whose frames are files of their own."""

    def peculiar(self) -> dict[str, int]:
        """Return how many of all videos that clips can be selected from are peculiar, see `VideoIndex.peculiar`."""


def find_clips(dataset: Dataset) -> ClipSource | None:
    """Return the clips behind a dataset, None where its samples are no clips.

    Raises:
        LoaderError: It mixes clips with something else, or clips that do not fit together.
    """
    if isinstance(dataset, Clips):
        return dataset
    if isinstance(dataset, LeRobotDataset):
        return Windows(dataset)
    if isinstance(dataset, Balanced):
        return find_clips(dataset.whole)
    if isinstance(dataset, Subset):
        whole = find_clips(dataset.whole)
        return None if whole is None else SelectedClips(dataset, whole)
    if isinstance(dataset, Mixture):
        parts = [find_clips(part) for part in dataset.datasets]
        found = [part for part in parts if part is not None]
        if found and len(found) < len(parts):
            raise LoaderError(
                "the dataset mixes clips with images, which make no batch together; mix datasets of clips"
            )
        return MixedClips(dataset, found) if found else None
    return None


def require_clips(views: Views, clips: ClipSource | None) -> None:
    """Refuse operations on the time of clips where samples are images.

    Raises:
        LoaderError: The recipe has one.
    """
    operations = views.recipes[0].temporal_operations
    if operations and clips is None:
        name = type(operations[0]).__name__
        raise LoaderError(
            f"{name} moves the frames of clips in time, and the samples of the dataset are images; give the "
            f"loader Clips(dataset, ...), or take {name} out of the recipe"
        )


def require_fits_cameras(views: Views, clips: ClipSource | None, decoder: object) -> None:
    """Refuse what cannot be done with the pictures of cameras; None and videos of one stream can have it all.

    Raises:
        LoaderError: The recipe moves frames in time, cameras of several sizes stay so, or DALI is to decode.
    """
    if clips is None or not clips.cameras:
        return
    operations = views.recipes[0].temporal_operations
    if operations:
        name = type(operations[0]).__name__
        raise LoaderError(
            f"{name} moves frames in time, away from the actions that belong to them; take {name} out of the recipe, "
            f"or choose frames by delta_timestamps"
        )
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


class SelectedClips:
    """Some of the clips of a dataset; see ClipSource.

    Args:
        subset: Which ones.
        whole: All of them.
    """

    def __init__(self, subset: Subset, whole: ClipSource) -> None:
        self._subset, self._whole = subset, whole
        self.num_frames, self.on_damaged_video = whole.num_frames, whole.on_damaged_video
        self.cameras, self.sizes = whole.cameras, whole.sizes
        self.info, self.fetch_frames = whole.info, whole.fetch_frames
        self.peculiar = whole.peculiar

    def videos(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """See ClipSource."""
        return self._whole.videos(self._subset.indices_in_whole(indices))

    def parts(self, index: int) -> list[Part]:
        """See ClipSource."""
        [index] = self._subset.indices_in_whole([index]).tolist()
        return self._whole.parts(index)

    def choose(
        self, seed: int, epoch: int, indices: NDArray[np.int64], *drawn: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """See ClipSource."""
        return self._whole.choose(seed, epoch, self._subset.indices_in_whole(indices), *drawn)

    def seconds(self, indices: NDArray[np.int64], frames: NDArray[np.int64]) -> NDArray[np.float64]:
        """See ClipSource."""
        return self._whole.seconds(self._subset.indices_in_whole(indices), frames)


class MixedClips:
    """Clips of several datasets; see ClipSource. Video v of dataset d of n is number v * n + d.

    Args:
        mixture: Mixture of the datasets.
        parts: The clips of each.

    Raises:
        LoaderError: Their clips are not equally long, or damaged videos are dealt with differently.
    """

    def __init__(self, mixture: Mixture, parts: list[ClipSource]) -> None:
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
        self._parts = parts
        self._starts = np.array([*accumulate(map(len, mixture.datasets), initial=0)])

    def videos(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """See ClipSource."""
        numbers = np.empty(len(indices), np.int64)
        for part, rows, own in self._divided(indices):
            numbers[rows] = self._parts[part].videos(own) * len(self._parts) + part
        return numbers

    def info(self, video: int) -> VideoInfo | VideoError:
        """See ClipSource."""
        number, part = divmod(video, len(self._parts))
        return self._parts[part].info(number)

    def parts(self, index: int) -> list[Part]:
        """See ClipSource."""
        [(part, _, own)] = self._divided(np.array([index]))
        found = self._parts[part].parts(int(own[0]))
        return [one._replace(video=(part, one.video)) for one in found]

    def choose(
        self, seed: int, epoch: int, indices: NDArray[np.int64], *drawn: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """See ClipSource."""
        chosen = np.empty((len(indices), self.num_frames), np.int64)
        for part, rows, own in self._divided(indices):
            chosen[rows] = self._parts[part].choose(seed, epoch, own, *(one[rows] for one in drawn))
        return chosen

    def seconds(self, indices: NDArray[np.int64], frames: NDArray[np.int64]) -> NDArray[np.float64]:
        """See ClipSource."""
        seconds = np.empty(frames.shape)
        for part, rows, own in self._divided(indices):
            seconds[rows] = self._parts[part].seconds(own, frames[rows])
        return seconds

    def fetch_frames(self, video: int, frames: NDArray[np.int64]) -> list[Payload | BadSample]:
        """See ClipSource."""
        number, part = divmod(video, len(self._parts))
        return self._parts[part].fetch_frames(number, frames)

    def peculiar(self) -> dict[str, int]:
        """See ClipSource."""
        counts = [part.peculiar() for part in self._parts]
        return {name: sum(one[name] for one in counts) for name in counts[0]}

    def _divided(self, indices: NDArray[np.int64]) -> Iterator[tuple[int, _Rows, _Rows]]:
        """Yield the number of each dataset, the rows that belong to it, and their indices there."""
        of_row = np.searchsorted(self._starts, indices, side="right") - 1
        for part in np.unique(of_row).tolist():
            rows = np.flatnonzero(of_row == part)
            yield part, rows, indices[rows] - self._starts[part]
