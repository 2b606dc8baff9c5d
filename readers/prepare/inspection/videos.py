"""Inspect the videos of a dataset, and collect statistics over them."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from readers.datasets.inspected import Checks
from readers.prepare.inspection.percentiles import Spread
from readers.sample import Sample
from readers.video.containers.open import VideoError
from readers.video.files import read_seconds
from readers.video.info import WORDS, VideoInfo, count_peculiar, cut
from readers.video.scan import scan_video


class VideoLook(NamedTuple):
    """Properties of one video or clip; see `readers.video.info.VideoInfo`."""

    codec: str
    height: int
    width: int
    num_frames: int
    seconds: float
    fps: float
    constant_rate: bool
    rotation: int
    has_audio: bool
    interlaced: bool
    stream_index: int
    num_streams: int
    is_slow: bool


@dataclass
class VideoFindings:
    """Statistics over the videos or clips of a dataset.

    Attributes:
        codecs: Number of videos for each codec.
        shapes: Number of videos for each (height, width), after rotation to upright.
        frames: Distribution of the number of frames.
        milliseconds: Distribution of the duration in milliseconds.
        rates: Number of videos for each frame rate, in frames per second, rounded to a hundredth.
        peculiar: Number of videos for each unusual property; see `readers.video.info.WORDS`.
        streams: Number of files with several video streams, for each stream that is read, such as "stream 1".
        num_with_audio: Number of videos with sound.
    """

    codecs: Counter[str] = field(default_factory=Counter)
    shapes: Counter[tuple[int, int]] = field(default_factory=Counter)
    frames: Spread = field(default_factory=Spread)
    milliseconds: Spread = field(default_factory=Spread)
    rates: Counter[float] = field(default_factory=Counter)
    peculiar: Counter[str] = field(default_factory=Counter)
    streams: Counter[str] = field(default_factory=Counter)
    num_with_audio: int = 0

    def add(self, look: VideoLook) -> None:
        """Count one video."""
        self.codecs[look.codec] += 1
        self.shapes[look.height, look.width] += 1
        self.frames.add(look.num_frames)
        self.milliseconds.add(round(1000 * look.seconds))
        self.rates[round(look.fps, 2)] += 1
        self.peculiar.update(count_peculiar(look._asdict()))
        if look.num_streams > 1:
            self.streams[f"stream {look.stream_index}"] += 1
        self.num_with_audio += look.has_audio

    def extend(self, later: "VideoFindings") -> None:
        """Add the statistics of another part, whose videos come later in the dataset."""
        for name in _COUNTERS:
            getattr(self, name).update(getattr(later, name))
        self.frames.extend(later.frames)
        self.milliseconds.extend(later.milliseconds)
        self.num_with_audio += later.num_with_audio

    def to_json(self) -> dict[str, Any]:
        """Return all statistics in a form that JSON can store, for `from_json`."""
        return {
            **{name: list(map(list, getattr(self, name).items())) for name in _COUNTERS},
            "shapes": [[*shape, count] for shape, count in self.shapes.items()],
            "frames": self.frames.to_json(),
            "milliseconds": self.milliseconds.to_json(),
            "num_with_audio": self.num_with_audio,
        }

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> "VideoFindings":
        """Return the statistics that `to_json` has stored."""
        shapes = {(height, width): count for height, width, count in stored["shapes"]}
        return cls(
            codecs=Counter(dict(stored["codecs"])),
            rates=Counter(dict(stored["rates"])),
            peculiar=Counter(dict(stored["peculiar"])),
            streams=Counter(dict(stored["streams"])),
            shapes=Counter(shapes),
            frames=Spread.from_json(stored["frames"]),
            milliseconds=Spread.from_json(stored["milliseconds"]),
            num_with_audio=stored["num_with_audio"],
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a summary for reports, in a form that JSON can store."""
        return {
            "codecs": dict(self.codecs),
            "shapes": [
                {"height": height, "width": width, "videos": count}
                for (height, width), count in self.shapes.most_common(100)
            ],
            "frames": self.frames.to_dict(),
            "milliseconds": self.milliseconds.to_dict(),
            "frames_per_second": {
                f"{rate:g}": count for rate, count in self.rates.most_common(100)
            },
            **{name.replace(" ", "_"): self.peculiar[name] for name in WORDS},
            "streams_taken": dict(self.streams),
            "with_audio": self.num_with_audio,
        }


_COUNTERS = ("codecs", "shapes", "rates", "peculiar", "streams")


def look_at_video(
    sample: Sample, info: VideoInfo | VideoError | None = None, checks: Checks | None = None
) -> VideoLook:
    """Return the properties of a sample's video, or of the clip of it that the sample stands for.

    Args:
        sample: A sample with a video.
        info: Metadata of the video, or the error that prevents reading them; None reads them from the video's packets.
        checks: Functions with which all frames are also decoded; None decodes nothing.

    Raises:
        VideoError: The field holds no video, the video is damaged or ends before the clip begins, or a frame cannot be
            decoded.
    """
    data = sample.video
    assert data is not None
    info = scan_video(data) if info is None else info
    if isinstance(info, VideoError):
        raise info
    if info.damage:
        raise VideoError(info.damage)
    segment = cut(info, read_seconds(sample))
    frames = np.arange(segment.first, segment.first + len(segment.pts))
    if checks is not None and (reason := checks.video(data, info, frames)):
        raise VideoError(reason)
    return VideoLook(
        info.codec,
        info.height,
        info.width,
        len(frames),
        float((segment.stop - int(segment.pts[0])) * segment.time_base),
        info.fps,
        info.constant_rate,
        info.rotation,
        info.has_audio,
        info.interlaced,
        info.stream_index,
        info.num_streams,
        info.is_slow,
    )
