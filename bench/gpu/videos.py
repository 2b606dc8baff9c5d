"""Videos for the visit: a camera that moves over a photograph, as every codec and kind that matters."""

import io
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from bench.gpu.photographs import photographs

_TIME_BASE = Fraction(1, 1000)
_STEP = 40  # from one frame to the next


@dataclass(frozen=True)
class Kind:
    """The encoding of a video.

    Attributes:
        ending: Of its name, which says the container.
        codec: FFmpeg's name of the encoder.
        pixel_format: FFmpeg's name.
        matrix: By which colours are made, as FFmpeg's own number.
        rotation: Degrees by which a player turns it counterclockwise.
        uneven: Whether frames are shown for different times.
        options: Of the encoder.
    """

    ending: str
    codec: str
    pixel_format: str = "yuv420p"
    matrix: int | None = None
    rotation: int = 0
    uneven: bool = False
    options: Mapping[str, str] = field(default_factory=dict)


_QUIET = "log-level=none"
KINDS = {
    "h264": Kind(".mp4", "libx264"),
    "h264 in Matroska": Kind(".mkv", "libx264"),
    "h264, turned by 90": Kind(".mp4", "libx264", rotation=90),
    "h264, turned by 180": Kind(".mp4", "libx264", rotation=180),
    "h264, variable rate": Kind(".mp4", "libx264", uneven=True),
    "h264, BT.709": Kind(".mp4", "libx264", matrix=1),
    "h264, full range": Kind(".mp4", "libx264", "yuvj420p"),
    "h264, open groups": Kind(".mp4", "libx264", options={"x264-params": "open-gop=1:keyint=12"}),
    "hevc": Kind(".mp4", "libx265", options={"x265-params": f"open-gop=0:{_QUIET}"}),
    "hevc, open groups": Kind(".mp4", "libx265", options={"x265-params": f"keyint=12:{_QUIET}"}),
    "hevc, 10 bits": Kind(".mp4", "libx265", "yuv420p10le", options={"x265-params": _QUIET}),
    "av1": Kind(".mp4", "libsvtav1", options={"preset": "10"}),
    "av1, no hidden frames": Kind(
        ".mp4", "libsvtav1", options={"preset": "10", "svtav1-params": "pred-struct=1"}
    ),
    "av1, 10 bits": Kind(".mp4", "libsvtav1", "yuv420p10le", options={"preset": "10"}),
    "vp9": Kind(".webm", "libvpx-vp9", options={"deadline": "realtime", "cpu-used": "8"}),
    "vp9, hidden frames": Kind(
        ".webm", "libvpx-vp9", options={"cpu-used": "8", "auto-alt-ref": "1", "lag-in-frames": "16"}
    ),
    "vp8": Kind(".webm", "libvpx", options={"deadline": "realtime", "cpu-used": "8"}),
    "mpeg4": Kind(".mp4", "mpeg4", options={"bf": "2"}),
    "mjpeg": Kind(".avi", "mjpeg", "yuvj420p"),
}
"""By name."""


def pan(data: Path, size: tuple[int, int], count: int) -> NDArray[np.uint8]:
    """Move over a photograph.

    Args:
        data: A folder of JPEGs.
        size: Height and width.
        count: Frames.

    Returns:
        uint8 [count, height, width, 3]; each frame differs from all others.
    """
    height, width = size
    [still] = photographs(data, (height + count, width + 2 * count), 1)
    with Image.open(io.BytesIO(still)) as opened:
        pixels = np.asarray(opened.convert("RGB"))
    return np.stack([pixels[t : t + height, 2 * t : 2 * t + width] for t in range(count)])


def write_video(path: Path, frames: NDArray[np.uint8], kind: Kind) -> None:
    """Encode frames, uint8 [count, height, width, 3], with a keyframe at least every 12 frames.

    Raises:
        av.FFmpegError: It has no such encoder.
    """
    times = _STEP * np.arange(len(frames))
    if kind.uneven:
        times[1::3] += _STEP // 2
    with usual_priority(), av.open(str(path), "w") as container:
        stream: Any = container.add_stream(
            kind.codec, rate=1000 // _STEP, options=dict(kind.options)
        )
        stream.height, stream.width = frames.shape[1:3]
        stream.pix_fmt = kind.pixel_format
        stream.codec_context.gop_size = 12
        stream.codec_context.time_base = _TIME_BASE
        if kind.matrix is not None:
            stream.codec_context.colorspace = kind.matrix
        if kind.rotation:
            stream.set_display_rotation(kind.rotation)
        for time, pixels in zip(times.tolist(), frames, strict=True):
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgb24")
            frame.pts, frame.time_base = time, _TIME_BASE
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


@contextmanager
def usual_priority() -> Iterator[None]:
    """Undo what SVT-AV1 does to a thread of root: it goes before everybody else on the machine, for ever."""
    try:
        yield
    finally:
        if hasattr(os, "sched_setscheduler"):
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
