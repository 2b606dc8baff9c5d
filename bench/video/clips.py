"""Which clips the commands take out of videos."""

from dataclasses import dataclass
from typing import Any

from bench.errors import BenchError
from dali_pipes.video.clips import Clips
from readers import Dataset, Sample, open_dataset
from readers.video import FrameFolderDataset

_NUM_LOOKED_AT = 16
_NUM_FRAMES, _STRIDE = 16, 4


@dataclass(frozen=True)
class ClipSettings:
    """How clips are taken out of videos; see `dali_pipes.video.clips.Clips`.

    Attributes:
        num_frames: Frames of a clip.
        stride: Places from one frame to the next; None where there is `fps`, else 4.
        fps: Frames per second of the clip.
    """

    num_frames: int = _NUM_FRAMES
    stride: int | None = None
    fps: float | None = None

    def __post_init__(self) -> None:
        for name in ("num_frames", "stride", "fps"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise BenchError(
                    f"{name} must be greater than 0, got {value}: leave it out to get the default"
                )
        if self.stride is not None and self.fps is not None:
            raise BenchError(
                f"a clip has a stride or a rate, got stride={self.stride} and fps={self.fps}: "
                "leave one of them out"
            )

    @property
    def step(self) -> dict[str, Any]:
        """The argument of `Clips` that says how far its frames are apart."""
        return {"stride": self.stride or _STRIDE} if self.fps is None else {"fps": self.fps}

    def clips(self, dataset: Dataset, **more: Any) -> Clips:
        """Make clips of videos.

        Args:
            dataset: Of videos.
            more: Further arguments of `Clips`.

        Raises:
            dali_pipes.LoaderError: An argument that cannot work.
        """
        return Clips(dataset, num_frames=self.num_frames, **self.step, **more)


def clip_settings(
    source: str, *, num_frames: int | None, stride: int | None, fps: float | None
) -> ClipSettings | None:
    """What was asked for where the data are videos; None where they are something else.

    Raises:
        readers.ReadersError: There is nothing to read.
        BenchError: The arguments cannot work, or are for videos alone.
    """
    if holds_videos(open_dataset(source)):
        return ClipSettings(_NUM_FRAMES if num_frames is None else num_frames, stride, fps)
    for name, value in (("num-frames", num_frames), ("stride", stride), ("fps", fps)):
        if value is not None:
            raise BenchError(f"--{name} {value} is for videos, and {source} has none: leave it out")
    return None


def usual_recipe(clips: ClipSettings | None) -> str:
    """The preset for those who name none."""
    return "imagenet_train" if clips is None else "video_train"


def usual_batch_size(clips: ClipSettings | None) -> int:
    """Images, or clips, in a batch for those who say nothing: clips are some megabytes each."""
    return 64 if clips is None else 8


def usual_dtype(clips: ClipSettings | None) -> str:
    """Of the batches of a comparison, for those who say nothing."""
    return "bfloat16" if clips is None else "float32"


def holds_videos(dataset: Dataset) -> bool:
    """Whether the data are videos, or folders of frames: the first sample that can be read says so."""
    if isinstance(dataset, FrameFolderDataset):
        return True
    for number in range(min(len(dataset), _NUM_LOOKED_AT)):
        [entry] = dataset.fetch([number])
        if isinstance(entry, Sample):
            return entry.image is None and entry.video is not None
    return False
