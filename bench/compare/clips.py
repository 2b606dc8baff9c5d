"""Open videos and take clips from them, as the commands do."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from bench.output.errors import BenchError, require_above_zero
from dali_pipes.preview.decodable_samples import find_decodable_videos
from dali_pipes.video.clips import Clips
from readers import Dataset
from readers.datasets.dataset import Subset
from readers.prepare.inspection.kind import holds_videos
from readers.prepare.source import open_at_random

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


def usual_batch_size(clips: ClipSettings | None) -> int:
    """Return the default batch size: smaller for clips, which have several megabytes each."""
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
