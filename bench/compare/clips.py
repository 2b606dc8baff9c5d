"""Open videos, take clips from them, and plan the clips of a comparison: all contestants get equal frames in one order."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.compare.images import as_file
from bench.output.errors import BenchError, require_above_zero
from dali_pipes.preview.decodable_samples import find_decodable_videos
from dali_pipes.video.clips import Clips
from readers import Dataset, Order, Sample
from readers.datasets.dataset import Subset
from readers.labels.label_vector import class_number
from readers.prepare.inspection.kind import holds_videos
from readers.prepare.source import open_at_random
from readers.video import VideoError, VideoInfo

MAX_VIDEOS = 256
"""Largest number of videos, spread evenly over the data: enough to be typical, few enough to stay in memory."""

NUM_CLIPS = 20_000
"""More clips than a comparison needs, so that no epoch ends during a measurement."""

_NO_KEYFRAME = "does not begin with a keyframe, and libraries number its frames differently"

_NUM_FRAMES, _STRIDE = 16, 4
_NUM_CLIPS_LOOKED_AT = 3  # clips of each video that are checked: at its beginning, middle and end


@dataclass(frozen=True)
class ClipSettings:
    """Settings of clips; see `dali_pipes.video.clips.Clips`.

    Attributes:
        num_frames: Frames of a clip.
        stride: Take every Nth frame; None if `fps` is given, else 4.
        fps: Frames per second of the clip.
        sampling: Which clips are taken from a video, as for `Clips`.
        clips_per_video: Count of clips per video, for some values of `sampling`.
        padding: Handling of a clip that is longer than its video.
        on_damaged_video: Handling of a video that breaks off.
    """

    num_frames: int = _NUM_FRAMES
    stride: int | None = None
    fps: float | None = None
    sampling: str = "random"
    clips_per_video: int = 1
    padding: str = "edge"
    on_damaged_video: str = "raise"

    def __post_init__(self) -> None:
        require_above_zero(num_frames=self.num_frames, stride=self.stride, fps=self.fps)
        if self.stride is not None and self.fps is not None:
            raise BenchError(
                f"a clip has a stride or a rate, got stride={self.stride} and fps={self.fps}: "
                "leave one of them out"
            )

    @property
    def step(self) -> dict[str, Any]:
        """The argument of `Clips` for the distance of frames, `stride` or `fps`, by name."""
        return {"stride": self.stride or _STRIDE} if self.fps is None else {"fps": self.fps}

    def clips(self, dataset: Dataset, **more: Any) -> Clips:
        """Return the clips of a dataset of videos.

        Args:
            dataset: A dataset of videos.
            more: Arguments of `Clips` that override these settings.

        Raises:
            dali_pipes.LoaderError: An argument is invalid.
        """
        how: dict[str, Any] = {
            "num_frames": self.num_frames,
            "sampling": self.sampling,
            "clips_per_video": self.clips_per_video,
            "padding": self.padding,
            "on_damaged_video": self.on_damaged_video,
        }
        return Clips(dataset, **self.step, **(how | more))


def clip_settings(
    source: str, how: Mapping[str, Any] = MappingProxyType({}), **asked: Any
) -> ClipSettings | None:
    """Return the requested settings if the data are videos, else None.

    Args:
        source: A source as for `readers.open_dataset`.
        how: Keyword arguments of `readers.open_dataset`; none when left out.
        asked: Attributes of `ClipSettings`; None for those that were not requested.

    Raises:
        readers.ReadersError: There is nothing to read.
        BenchError: The arguments are invalid, or only apply to videos.
    """
    given = {name: value for name, value in asked.items() if value is not None}
    if holds_videos(open_at_random(source, **how)):
        return ClipSettings(**given)
    for name, value in given.items():
        raise BenchError(
            f"--{name.replace('_', '-')} {value} is for videos, and {source} has none: leave it out"
        )
    return None


def usual_recipe(clips: ClipSettings | None) -> str:
    """Return the name of the preset that is the default recipe, for images (`clips` is None) or clips."""
    return "imagenet_train" if clips is None else "video_train"


def usual_batch_size(clips: object) -> int:
    """Return the default batch size: smaller for clips and windows (not None), which have several megabytes each."""
    return 64 if clips is None else 8


def usual_dtype(clips: ClipSettings | None) -> str:
    """Return the default dtype of the batches of a comparison."""
    return "bfloat16" if clips is None else "float32"


def open_sound_videos(
    source: str, settings: ClipSettings, *, most: int, how: Mapping[str, Any] = MappingProxyType({})
) -> tuple[Subset, list[str]]:
    """Return videos spread evenly over a dataset, without damaged ones, which decoding some clips of each video finds.

    Args:
        source: A source as for `readers.open_dataset`.
        settings: Length of the clips, and distance of their frames.
        most: Largest count of videos.
        how: Keyword arguments of `readers.open_dataset`.

    Returns:
        The videos, and one sentence for each video that is not sound.

    Raises:
        readers.ReadersError: There is nothing to read.
        BenchError: No video is sound.
    """
    dataset = open_at_random(source, **how)
    count = min(len(dataset), most)
    spread = [number * len(dataset) // count for number in range(count)]
    each = {"sampling": "uniform", "clips_per_video": _NUM_CLIPS_LOOKED_AT}
    sound, left_out = find_decodable_videos(settings.clips(dataset.take(spread), **each))
    if not sound:
        raise BenchError(
            f"{source} has no sound video (the first of {len(left_out)} is {left_out[0]}): "
            "give a folder, a list or shards with videos"
        )
    return dataset.take([spread[number] for number in sound]), left_out


class Clip(NamedTuple):
    """A clip of a comparison: some frames of a video.

    Attributes:
        path: The video's file.
        info: Metadata of the video.
        frames: int64 [T], indices of the frames in presentation order.
        label: Class number of the video; 0 without a label.
    """

    path: Path
    info: VideoInfo
    frames: NDArray[np.int64]
    label: int

    @property
    def pts(self) -> NDArray[np.int64]:
        """int64 [T], the time stamps of the frames."""
        return self.info.pts[self.frames]


@dataclass(frozen=True)
class ClipPlan:
    """The order of the clips, as in our loader's first epoch.

    Attributes:
        clips: The clips for our loader.
        files: The file of each video.
        labels: The class number of each video.
        videos: int64 [n], the index of the video at each position.
        frames: int64 [n, T], the indices of the frames at each position.
    """

    clips: Clips
    files: list[Path]
    labels: list[int]
    videos: NDArray[np.int64]
    frames: NDArray[np.int64]

    def __getitem__(self, position: int) -> Clip:
        """Return the clip at a position; positions repeat after the last one."""
        position %= len(self.videos)
        return self.clip(int(self.videos[position]), self.frames[position])

    def clip(self, video: int, frames: NDArray[np.int64]) -> Clip:
        """Return a clip, given by the index of its video and the indices of its frames."""
        info = self.clips.info(video)
        assert isinstance(info, VideoInfo)
        return Clip(self.files[video], info, frames, self.labels[video])

    def first(self, count: int) -> list[Clip]:
        """Return the first `count` clips."""
        return [self[position] for position in range(count)]

    @property
    def num_frames(self) -> int:
        """Count of frames of a clip, T."""
        return int(self.frames.shape[1])


def make_plan(
    source: str,
    settings: ClipSettings,
    seed: int,
    folder: Path,
    *,
    num_clips: int = NUM_CLIPS,
    how: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[ClipPlan, list[str]]:
    """Open videos, leave out damaged ones, and choose random clips.

    Args:
        source: A source as for `readers.open_dataset`.
        settings: Length of the clips, and distance of their frames.
        seed: Seed of the order and of the frames.
        folder: Folder for videos that are not files yet, such as those in tar shards.
        num_clips: Smallest count of clips.
        how: Keyword arguments of `readers.open_dataset`.

    Returns:
        The plan, and one sentence for each video that was left out for all contestants.

    Raises:
        readers.ReadersError: The source cannot be opened or has no samples.
        BenchError: No video is sound.
    """
    videos, left_out = open_sound_videos(source, settings, most=MAX_VIDEOS, how=how)
    probe = settings.clips(videos)
    ordinary = [video for video in range(len(videos)) if _begins_with_keyframe(probe.info(video))]
    odd = set(range(len(videos))) - set(ordinary)
    left_out += [f"{sample.key}: {_NO_KEYFRAME}" for sample in videos.fetch(sorted(odd))]
    if not ordinary:
        raise BenchError(f"{source} has no video that every library reads ({left_out[0]})")
    videos = videos.take(ordinary)
    samples = [entry for entry in videos.fetch(range(len(videos))) if isinstance(entry, Sample)]
    clips = settings.clips(videos, sampling="random", clips_per_video=-(-num_clips // len(videos)))
    indices = Order(len(clips), seed=seed).indices(0, np.arange(len(clips)))
    frames = clips.frames(seed, 0, indices, np.zeros_like(indices))
    files = [as_file(sample, sample.video, source, folder) for sample in samples]
    labels = [max(0, class_number(sample.label)) for sample in samples]
    return ClipPlan(clips, files, labels, clips.videos(indices), frames), left_out


def _begins_with_keyframe(info: VideoInfo | VideoError) -> bool:
    """Return whether the first packet is a keyframe; otherwise libraries number frames differently."""
    return isinstance(info, VideoInfo) and int(info.keyframes[0]) == 0
