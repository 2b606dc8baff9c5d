"""The clips of a race: the same frames of the same videos in the same order for all contestants."""

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
"""So many are taken, spread evenly: enough to be typical, few enough to stay in memory."""

NUM_CLIPS = 20_000
"""More than a race takes, so that no epoch ends while the clock runs."""

_NO_KEYFRAME = "does not begin with a keyframe, and libraries number its frames differently"


class Clip(NamedTuple):
    """Frames of a video.

    Attributes:
        path: The video's file.
        info: What is known of it.
        frames: int64 [T], their numbers in the order of presentation.
        label: Class number of the video, 0 where it has none.
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
        clips: What our loader reads.
        files: The file of each video.
        labels: The class number of each video.
        videos: int64 [n], the video at each position.
        frames: int64 [n, T], its frames.
    """

    clips: Clips
    files: list[Path]
    labels: list[int]
    videos: NDArray[np.int64]
    frames: NDArray[np.int64]

    def __getitem__(self, position: int) -> Clip:
        """The clip at a position; after the last position the first one comes again."""
        position %= len(self.videos)
        return self.clip(int(self.videos[position]), self.frames[position])

    def clip(self, video: int, frames: NDArray[np.int64]) -> Clip:
        """Some frames of a video, of which both are given by their numbers."""
        info = self.clips.info(video)
        assert isinstance(info, VideoInfo)
        return Clip(self.files[video], info, frames, self.labels[video])

    def first(self, count: int) -> list[Clip]:
        """The clips at the first positions."""
        return [self[position] for position in range(count)]

    @property
    def num_frames(self) -> int:
        """T, the frames of a clip."""
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
    """Open videos, leave out those that are damaged, and choose random clips.

    Args:
        source: A source as for `readers.open_dataset`.
        settings: How long clips are, and how far their frames are apart.
        seed: Seed of the order and of the frames.
        folder: Where videos go that are not files already, such as those in tar shards.
        num_clips: So many at least.
        how: Keyword arguments of `readers.open_dataset`.

    Returns:
        The plan, and why videos were left out for everybody, one sentence each.

    Raises:
        readers.ReadersError: There is nothing to read.
        BenchError: Not one video is sound.
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
    """Whether the first packet is a keyframe: libraries number frames differently where it is not."""
    return isinstance(info, VideoInfo) and int(info.keyframes[0]) == 0
