"""The clips of a race: the same frames of the same videos in the same order for everyone."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from bench.compare.contestant import Footing
from bench.errors import BenchError
from bench.source import open_at_random
from bench.video.clips import ClipSettings
from dali_pipes import Loader
from dali_pipes.video.clips import Clips
from gpu_aug import CenterCrop, Recipe
from readers import Order, Sample
from readers.dataset import Subset
from readers.video import VideoInfo

MAX_VIDEOS = 256
"""So many are taken, spread evenly: enough to be typical, few enough to stay in memory."""

NUM_CLIPS = 20_000
"""More than a race takes, so that no epoch ends while the clock runs."""

_NUM_CLIPS_LOOKED_AT = 3  # of each video: at its beginning, in its middle and at its end
_SIDE_LOOKED_AT = 16  # of frames: few pixels, since it is the decoding that fails
_NUM_CLIPS_AT_ONCE = 8


class Clip(NamedTuple):
    """Frames of a video.

    Attributes:
        path: The video's file.
        info: What is known of it.
        frames: int64 [T], places in the order of presentation.
        label: Label of the video, 0 if it has none.
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
    """Which clip stands at which position, as in our loader's first epoch.

    Attributes:
        clips: What our loader reads.
        files: File of each video.
        labels: Label of each video.
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
        place = position % len(self.videos)
        video = int(self.videos[place])
        info = self.clips.info(video)
        assert isinstance(info, VideoInfo)
        return Clip(self.files[video], info, self.frames[place], self.labels[video])

    def first(self, count: int) -> list[Clip]:
        """The clips at the first positions."""
        return [self[position] for position in range(count)]

    @property
    def num_frames(self) -> int:
        """T, the frames of a clip."""
        return int(self.frames.shape[1])


@dataclass(frozen=True)
class ClipFooting(Footing):
    """What every contestant gets: a batch is [batch_size, T, 3, height, width].

    Attributes:
        plan: The clips, position by position.
    """

    plan: ClipPlan = field(kw_only=True)

    @property
    def num_frames(self) -> int:
        """Frames of a clip."""
        return self.plan.num_frames


def make_plan(
    source: str,
    settings: ClipSettings,
    seed: int,
    folder: Path,
    *,
    num_clips: int = NUM_CLIPS,
    format: str | None = None,
) -> tuple[ClipPlan, list[str]]:
    """Open videos, leave out those that are damaged, and choose random clips.

    Args:
        source: Whatever `readers.open_dataset` takes.
        settings: How long clips are, and how far their frames are apart.
        seed: Seed of the order and of the frames.
        folder: Where videos go that are not files already, such as those in tar shards.
        num_clips: So many at least.
        format: Format of the source, if its name does not tell it.

    Returns:
        The plan, and why videos were left out for everybody, one sentence each.

    Raises:
        readers.ReadersError: There is nothing to read.
        BenchError: Not one video is sound.
    """
    videos, left_out = sound_videos(source, settings, most=MAX_VIDEOS, format=format)
    samples = [entry for entry in videos.fetch(range(len(videos))) if isinstance(entry, Sample)]
    clips = settings.clips(videos, sampling="random", clips_per_video=-(-num_clips // len(videos)))
    positions = np.arange(len(clips))
    indices = Order(len(clips), seed=seed).indices(0, positions)
    frames = clips.frames(seed, 0, indices, np.zeros_like(indices))
    files = [_as_file(sample, source, folder) for sample in samples]
    labels = [max(0, sample.label) for sample in samples]
    return ClipPlan(clips, files, labels, clips.videos(indices), frames), left_out


def sound_videos(
    source: str, settings: ClipSettings, *, most: int, format: str | None = None
) -> tuple[Subset, list[str]]:
    """Videos spread evenly over a dataset, without those that are damaged: some clips of each are decoded.

    Args:
        source: Whatever `readers.open_dataset` takes.
        settings: How long clips are, and how far their frames are apart.
        most: So many videos at most.
        format: Format of the source, if its name does not tell it.

    Returns:
        The videos, and what is wrong with the others, one sentence each.

    Raises:
        readers.ReadersError: There is nothing to read.
        BenchError: Not one of them is sound.
    """
    dataset = open_at_random(source, format)
    count = min(len(dataset), most)
    spread = [number * len(dataset) // count for number in range(count)]
    faults = _faults(
        settings.clips(
            dataset.take(spread), sampling="uniform", clips_per_video=_NUM_CLIPS_LOOKED_AT
        )
    )
    sound = [index for place, index in enumerate(spread) if place not in faults]
    left_out = [faults[place] for place in sorted(faults)]
    if not sound:
        raise BenchError(
            f"{source} has no sound video (the first of {len(left_out)} is {left_out[0]}): "
            "give a folder, a list or shards with videos"
        )
    return dataset.take(sound), left_out


def _faults(clips: Clips) -> dict[int, str]:
    """Decode all clips; return what is wrong with videos, by their places."""
    with Loader(
        clips,
        Recipe([CenterCrop(_SIDE_LOOKED_AT)]),
        batch_size=_NUM_CLIPS_AT_ONCE,
        device="cpu",
        decoder="cpu",
        shuffle="none",
        last_batch="partial",
        dtype=torch.uint8,
        on_bad_sample="skip",
        max_bad_samples=len(clips),
    ) as loader:
        for _ in loader:
            pass
        lost = [record for record in loader.bad_samples if not record.kept]
    places = clips.videos(np.array([record.index for record in lost], np.int64))
    return {
        place: f"{record.key.rpartition('#')[0]}: {record.reason}"
        for place, record in zip(places.tolist(), lost, strict=True)
    }


def _as_file(sample: Sample, source: str, folder: Path) -> Path:
    own = Path(source) / sample.key
    if own.is_file():
        return own.absolute()
    if sample.video_field is None or sample.video is None:
        raise BenchError(
            f"{sample.key} is no video file, which is what the other libraries read: give videos"
        )
    copy = folder / f"{sample.index:08d}.{sample.video_field.rpartition('.')[2]}"
    copy.write_bytes(sample.video)
    return copy
