"""Plan the clips of a comparison: all contestants get equal frames of equal videos in one order."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.compare.clips import ClipSettings, open_sound_videos
from bench.compare.images import as_file
from bench.output.errors import BenchError
from dali_pipes.video.clips import Clips
from readers import Order, Sample
from readers.labels.label_vector import class_number
from readers.video import VideoError, VideoInfo

MAX_VIDEOS = 256
"""Largest number of videos, spread evenly over the data: enough to be typical, few enough to stay in memory."""

NUM_CLIPS = 20_000
"""More clips than a comparison needs, so that no epoch ends during a measurement."""

_NO_KEYFRAME = "does not begin with a keyframe, and libraries number its frames differently"


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
