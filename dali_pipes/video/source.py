"""Define the interface to the clips of a dataset, for selections, mixtures and the frames of LeRobot datasets."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import accumulate
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dali_pipes.errors import LoaderError
from dali_pipes.video.clips import Clips, OnDamagedVideo
from dali_pipes.video.packets import Part
from gpu_aug.views import CameraRecipes, Views
from readers import Dataset
from readers.datasets.dataset import Balanced, Subset
from readers.datasets.mixture import Mixture, by_dataset
from readers.datasets.origin import sources_of
from readers.formats.lerobot.cameras import Camera
from readers.formats.lerobot.dataset import LeRobotDataset
from readers.formats.lerobot.episodes import Place
from readers.formats.lerobot.videos import Shown
from readers.video import VideoError
from readers.video.frame_folder import FRAMES_CODEC

_Rows = NDArray[np.int64]

NO_CAMERA, NOT_FOUND = -1, -2
"""Stand for the number of a frame whose dataset lacks the camera, also in batches, and of one that cannot be found: its sample is bad."""


class Windows:
    """The pictures of a LeRobot dataset's samples, as clips.

    Each sample is a clip of the pictures of all cameras; see ClipSource. The video of a clip is its episode.

    Args:
        dataset: The dataset, which chooses the frames.

    Attributes:
        num_frames: Count of pictures of a sample, over all cameras of pictures.
        on_damaged_video: Always "raise": clips with a damaged video are bad samples.
        cameras: For each camera's name, the range of its pictures among all pictures of a sample.
        depths: For each depth camera's name, the range of its frames, which follow those pictures.
        sizes: For each camera of pictures, by name, its height and width from meta/info.json.

    Raises:
        LoaderError: All cameras show distances.
    """

    def __init__(self, dataset: LeRobotDataset) -> None:
        self._dataset = dataset
        self.on_damaged_video: OnDamagedVideo = "raise"
        self.cameras: dict[str, slice] = {}
        self.depths: dict[str, slice] = {}
        self._columns: list[tuple[Camera, slice]] = []
        start = 0
        for number, name in enumerate(dataset.cameras):  # depth cameras come last
            camera, columns = dataset.camera(number), slice(start, start + dataset.num_frames[name])
            (self.depths if camera.depth else self.cameras)[name] = columns
            self._columns.append((camera, columns))
            start = columns.stop
        if not self.cameras:
            raise LoaderError(
                f"the cameras {', '.join(self.depths)} all show distances, and a batch needs pictures, whose crops the "
                "distances follow; take a camera of pictures, too (cameras=...)"
            )
        self.num_frames = sum(dataset.num_frames[name] for name in self.cameras)
        self.sizes = {one.name: {one.size} for one, _ in self._columns if one.depth is None}

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
        chosen = np.full((len(indices), frame_columns(self)), NOT_FOUND)
        batch = self._dataset.batch(indices)
        for camera, columns in self._columns:
            for row, shown in enumerate(camera.shown(batch)):
                # NOT_FOUND remains: the sample is bad already, or becomes bad later (its tables were evicted and could not be read again).
                if isinstance(shown, Shown):
                    chosen[row, columns] = shown.frames
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
        source = camera.source(place)
        return Part(columns, camera.video(place), info, read, field, camera.depth, source)


class ClipSource(Protocol):
    """Metadata of the clips of a dataset. Indices are those of the dataset.

    Attributes:
        num_frames: Frames of a clip, T.
        on_damaged_video: See Clips.
        cameras: Range of the frames of each camera, by name; empty if each clip comes from one video.
        depths: Range of the frames of each depth camera, by name; they follow the T frames of a clip.
        sizes: Heights and widths of each camera of pictures, by name; empty if each clip comes from one video.
    """

    num_frames: int
    on_damaged_video: OnDamagedVideo
    cameras: dict[str, slice]
    depths: dict[str, slice]
    sizes: dict[str, set[tuple[int, int]]]

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
            int64 [n, T + D], frame numbers in presentation order, of the T pictures and the D maps of distances; 0 for a
            video that cannot be read, NOT_FOUND if the frames of a sample cannot be found, which makes it a bad sample, and
            NO_CAMERA where its dataset lacks the camera.
        """

    def peculiar(self) -> dict[str, int]:
        """Return for each peculiarity how many videos of the dataset have it; see `VideoIndex.peculiar`."""


def frame_columns(clips: ClipSource) -> int:
    """Return how many frames a clip has together with the frames of its depth cameras, T + D."""
    return int(max([clips.num_frames, *(one.stop for one in clips.depths.values())]))


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


def robots_of(dataset: Dataset) -> list[LeRobotDataset]:
    """Return the LeRobot datasets that read the samples of a selection or mixture, each once."""
    return [one for one in sources_of(dataset) if isinstance(one, LeRobotDataset)]


def clip_seconds(
    clips: ClipSource, indices: NDArray[np.int64], frames: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the display times of frames of clips, counted from the first frame of each video.

    Args:
        clips: The clips.
        indices: int64 [n], the clips.
        frames: int64 [n, T + D], frame numbers in presentation order; see `ClipSource.choose`.

    Returns:
        float64 [n, T + D]; 0 for a clip whose videos cannot be read, and where the dataset of a clip lacks the camera.
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
        LoaderError: The recipe moves frames in time but samples are images or frames with actions; or the recipes are for
            other cameras than those of the data; or the cameras of a recipe keep several sizes; or DALI would have to
            decode cameras.
    """
    operations = views.recipes[0].temporal_operations
    if operations and (clips is None or clips.cameras):
        name = type(operations[0]).__name__
        raise LoaderError(
            f"{name} moves frames in time, but the samples are {'images' if clips is None else 'frames with actions'}; "
            f"give the loader Clips(dataset, ...), or take {name} out of the recipe (robots: see delta_timestamps)"
        )
    groups = camera_groups(views, clips)
    if clips is None or not clips.cameras:
        return
    for recipe, group in zip(views.recipes, groups, strict=True):
        of_group = set().union(*(clips.sizes[name] for name in group))
        if len(of_group) > 1 and recipe.decode_size is None:
            sizes = " and ".join(f"{height}x{width}" for height, width in sorted(of_group))
            raise LoaderError(
                f"the cameras have {sizes} pixels, and the recipe gives them no one size at its beginning; begin with "
                f"Resize(size) or RandomResizedCrop(size), take one camera (cameras=...), or give each size a recipe "
                f"(CameraRecipes)"
            )
    if decoder not in ("auto", "cpu"):
        raise LoaderError(
            f'decoder={decoder!r} does not decode the pictures of a robot\'s cameras; use "cpu" or "auto"'
        )


def camera_groups(views: Views, clips: ClipSource | None) -> tuple[tuple[str, ...], ...]:
    """Return the cameras that each view shows: those of its group, or all; none if samples have no named cameras.

    Raises:
        LoaderError: The recipes are for cameras that the data does not have, or for only some of its cameras.
    """
    cameras = () if clips is None else tuple(clips.cameras)
    if not isinstance(views, CameraRecipes):
        return (cameras,) * len(views)
    named = [name for group in views.groups for name in group]
    if not cameras:
        raise LoaderError(
            f"the recipes are for the cameras {', '.join(named)}, but the samples have no cameras with names, as those of "
            "LeRobot datasets have; give one Recipe"
        )
    if depths := [name for name in named if clips and name in clips.depths]:
        raise LoaderError(
            f"the recipes are for {', '.join(depths)}, whose distances move with the pictures of the first group: leave "
            "out their names"
        )
    if unknown := [name for name in named if name not in cameras]:
        raise LoaderError(
            f"the recipes are for the cameras {', '.join(unknown)}, which the data does not have or cameras= left out; it "
            f"has {', '.join(cameras)}"
        )
    if left_out := [name for name in cameras if name not in named]:
        raise LoaderError(
            f"no recipe is for the cameras {', '.join(left_out)}; add them to a group, or open the data without them "
            "(cameras=...)"
        )
    return views.groups


def columns_of_views(
    views: Views, clips: ClipSource | None, every: Sequence[int]
) -> list[Sequence[int]]:
    """Return the images of a sample that each view shows, in their order: those of its cameras, or `every` image."""
    if clips is None or not isinstance(views, CameraRecipes):
        return [every] * len(views)
    return [
        tuple(column for name in group for column in every[clips.cameras[name]])
        for group in views.groups
    ]


class ComposedClips:
    """Clips of a selection or a mixture; see ClipSource. Video v of dataset d of n datasets has the index v * n + d.

    The cameras of a mixture are those of all its datasets, in the order in which they first appear.

    Args:
        dataset: A selection, which has one part, or a mixture.
        parts: For each underlying dataset, its clips.

    Raises:
        LoaderError: The clips of the datasets differ in length, in the handling of damaged videos, or in the number of
            pictures of a camera; or only some have cameras; or a name is a camera of pictures here and of distances there.
    """

    def __init__(self, dataset: Subset | Mixture, parts: list[ClipSource]) -> None:
        alike = () if all(part.cameras for part in parts) else ("num_frames", "cameras")
        for name in ("on_damaged_video", *alike):
            values = [getattr(part, name) for part in parts]
            if any(value != values[0] for value in values):
                raise LoaderError(
                    f"the dataset mixes clips with {name}={values}, which make no batch together; make all "
                    "Clips with one value"
                )
        self.on_damaged_video = parts[0].on_damaged_video
        self.cameras = _all_cameras(dataset, [part.cameras for part in parts])
        stops = [columns.stop for columns in self.cameras.values()]
        self.num_frames = max(stops, default=parts[0].num_frames)
        self.depths = _all_cameras(dataset, [part.depths for part in parts], self.num_frames)
        if both := sorted(self.cameras.keys() & self.depths):
            raise LoaderError(
                f"{', '.join(both)} is a camera of pictures in some datasets and of distances in others: give one of them "
                "another name (rename=...), or leave it out (cameras=...)"
            )
        columns, places = self.cameras | self.depths, np.arange(frame_columns(self))
        # For each underlying dataset, the places of its frames among those of a clip.
        self._columns = [
            np.concatenate(
                [places[columns[name]] for name in (*part.cameras, *part.depths)] or [places]
            )
            for part in parts
        ]
        self.sizes = {
            name: set().union(*(part.sizes.get(name, ()) for part in parts))
            for name in self.cameras
        }
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
        parts = self._parts[part].parts(int(own[0]))
        columns = [self._columns[part][one.columns].tolist() for one in parts]
        return [
            one._replace(columns=slice(places[0], places[-1] + 1), video=(part, one.video))
            for one, places in zip(parts, columns, strict=True)
        ]

    def choose(
        self, seed: int, epoch: int, indices: NDArray[np.int64], *drawn: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Choose the frames of clips, each by the rules of its underlying dataset."""
        chosen = np.full((len(indices), frame_columns(self)), NO_CAMERA)
        for part, rows, own in self._by_part(indices):
            frames = self._parts[part].choose(seed, epoch, own, *(one[rows] for one in drawn))
            chosen[np.ix_(rows, self._columns[part])] = frames
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
        else:
            yield from by_dataset(self._dataset, indices)


def _all_cameras(
    dataset: Subset | Mixture, cameras: Sequence[dict[str, slice]], first: int = 0
) -> dict[str, slice]:
    """Return for each camera of a mixture the range of its pictures among those of a sample.

    Args:
        dataset: The mixture.
        cameras: The ranges in each underlying dataset, by name.
        first: Where the first range begins.

    Raises:
        LoaderError: The datasets have different numbers of pictures of a camera.
    """
    counts: dict[str, int] = {}
    for own in cameras:
        for name, columns in own.items():
            count = columns.stop - columns.start
            if counts.setdefault(name, count) != count:
                robots = robots_of(dataset)
                given = [f"{n} in {one.root}" for one in robots if (n := one.num_frames.get(name))]
                raise LoaderError(
                    f"the pictures of {name} in a sample are {', '.join(given)}, which make no batch together: give "
                    "delta_timestamps of one length for it, in multiples of 1 / fps of each dataset"
                )
    stops = [*accumulate(counts.values(), initial=first)][1:]
    return {
        name: slice(stop - count, stop)
        for (name, count), stop in zip(counts.items(), stops, strict=True)
    }
