"""What the videos of a dataset are like."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.inspect_spread import Spread
from readers import BadSample, Sample
from readers.plural import counted
from readers.sample import Payload
from readers.video import (
    FRAMES_CODEC,
    FrameFolderDataset,
    VideoError,
    VideoInfo,
    read_seconds,
    scan_video,
)
from readers.video.oddities import WORDS, count_peculiar, told

_MOST_RATES = 3
_FRAMES_OF_A_CLIP = 100  # for which the time is enough that the loader gives to a clip


class VideoLook(NamedTuple):
    """What was seen of one video, without its packets."""

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
class VideoSurvey:
    """What was found in all.

    Attributes:
        codecs: How often which.
        shapes: How often which (height, width), upright.
        frames: Of a video, or of the clip of it that a sample is.
        milliseconds: Likewise.
        rates: How often which number of frames per second, to a hundredth.
        peculiar: How many are what people should know of, see `readers.video.oddities.WORDS`.
        streams: How often which was taken, of videos with several streams of video.
        num_with_audio: Videos with sound.
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
        """Count a video in."""
        self.codecs[look.codec] += 1
        self.shapes[look.height, look.width] += 1
        self.frames.add(look.num_frames)
        self.milliseconds.add(round(1000 * look.seconds))
        self.rates[round(look.fps, 2)] += 1
        self.peculiar.update(count_peculiar(look._asdict()))
        if look.num_streams > 1:
            self.streams[f"stream {look.stream_index}"] += 1
        self.num_with_audio += look.has_audio

    def facts(self) -> list[tuple[str, str]]:
        """As lines of a table; none without videos."""
        if not self.codecs:
            return []
        sizes = [f"{height}x{width}" for height, width in self.shapes]
        named = Counter(dict(zip(sizes, self.shapes.values(), strict=True)))
        rates = Counter({f"{rate:g}": count for rate, count in self.rates.items()})
        taken = f" ({_listed(self.streams)})" if self.streams else ""
        return [
            (
                "videos",
                "folders of frames" if FRAMES_CODEC in self.codecs else _listed(self.codecs),
            ),
            ("shapes", f"{_listed(named)} (height x width)"),
            ("frames", f"{_ends(self.frames, 1)}; {self.frames.total:,} in all"),
            (
                "lengths",
                f"{_ends(self.milliseconds, 1000)} seconds; {self.milliseconds.total / 3.6e6:.3g} hours in all",
            ),
            ("frames per second", _listed(rates)),
            ("sound", f"in {self.num_with_audio:,}"),
            *(
                (name, text + taken * (name == "several streams"))
                for name, text in told(self.peculiar)
            ),
        ]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
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


def look_at_video(
    sample: Sample, folders: FrameFolderDataset | None = None, *, decode: bool
) -> VideoLook:
    """Look through the packets of a sample's video, or at the clip of it that the sample is.

    Args:
        sample: With a video.
        folders: Where it is a folder of frames, the dataset it is from.
        decode: Also decode all of its frames.

    Raises:
        VideoError: It is no video, is damaged, ends before its clip begins, or has a frame that a loader cannot
            decode.
    """
    from dali_pipes.video.segment import cut

    data = sample.video
    assert data is not None
    info = scan_video(data) if folders is None else folders.info(sample.index)
    if isinstance(info, VideoError):
        raise info
    if info.damage:
        raise VideoError(info.damage)
    segment = cut(info, read_seconds(sample))
    frames = np.arange(segment.first, segment.first + len(segment.pts))
    if decode and folders is not None:
        _decode_pictures(folders, sample.index, info, frames)
    elif decode:
        _decode(data, info, frames)
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


def _decode_pictures(
    folders: FrameFolderDataset, index: int, info: VideoInfo, frames: NDArray[np.int64]
) -> None:
    from dali_pipes.decode.opencv import decode
    from dali_pipes.errors import DecodeError

    for frame in frames.tolist():
        [picture] = folders.fetch_frames(index, [frame])
        try:
            if isinstance(picture, BadSample):
                raise DecodeError(picture.reason)
            decode(picture, (info.height, info.width))
        except DecodeError as error:
            raise VideoError(f"frame {frame} of {len(info)}: {error}") from None


def _decode(data: Payload, info: VideoInfo, frames: NDArray[np.int64]) -> None:
    """Decode frames by the loader's own way, which finds damage that FFmpeg passes over."""
    from dali_pipes.errors import DecodeError
    from dali_pipes.video.codec import ClipDeadline
    from dali_pipes.video.decode import DECODE_SECONDS, read_frames

    deadline = ClipDeadline(DECODE_SECONDS * (1 + len(frames) / _FRAMES_OF_A_CLIP))
    try:
        for _ in read_frames(data, info, frames, deadline):
            pass
    except DecodeError as error:
        raise VideoError(str(error)) from None


def _listed(counts: Counter[str]) -> str:
    total = counts.total()
    named = [f"{name} ({count:,} of {total:,})" for name, count in counts.most_common(_MOST_RATES)]
    if total == next(iter(counts.values())):
        return f"all {next(iter(counts))}"
    more = len(counts) - len(named)
    return ", ".join(named) + (f", and {counted(more, 'other')}" if more else "")


def _ends(spread: Spread, unit: int) -> str:
    if spread.lowest == spread.highest:
        return f"all {spread.lowest / unit:g}"
    ends = (spread.lowest, spread.highest, spread.percentile(50))
    low, high, middle = (f"{number / unit:g}" for number in ends)
    return f"{low} to {high}, median {spread.about}{middle}"
