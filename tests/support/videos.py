"""Videos for tests: pictures that the camera pans over, encoded by FFmpeg through PyAV."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tests.support.jpegs import picture

TIME_BASE = Fraction(1, 12800)


def pan(num_frames: int, size: tuple[int, int], *, seed: int = 0) -> NDArray[np.uint8]:
    """Cut frames out of one picture along a line, so that each differs from its neighbours.

    Returns:
        uint8 [num_frames, height, width, 3].
    """
    height, width = size
    still = picture(height + num_frames, width + 2 * num_frames, seed)
    return np.stack([still[t : t + height, 2 * t : 2 * t + width] for t in range(num_frames)])


def write_video(
    path: Path,
    frames: NDArray[Any],
    *,
    codec: str = "libx264",
    fps: int = 25,
    pixel_format: str = "yuv420p",
    gop: int = 12,
    pts: Sequence[int] | None = None,
    rotation: int = 0,
    audio: bool = False,
    options: Mapping[str, str] | None = None,
) -> Path:
    """Encode frames; the container follows from the name's ending.

    Args:
        path: Where the file goes.
        frames: uint8 [T, height, width, 3]; or the luma of `pixel_format` itself, uint16 [T, height, width].
        codec: FFmpeg's name of an encoder.
        fps: Frames per second, where `pts` says nothing else.
        pixel_format: FFmpeg's name.
        gop: The most frames from one keyframe to the next.
        pts: When each frame is shown, in units of 1 / 12800 s; ascending.
        rotation: Degrees by which a player turns the frames, counterclockwise; mp4 and mov alone.
        audio: Whether there is a stream of silence, too.
        options: Of the encoder.
    """
    with usual_priority(), av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=fps, options=dict(options or {}))
        stream.height, stream.width = frames.shape[1:3]
        stream.pix_fmt = pixel_format
        stream.codec_context.gop_size = gop
        stream.codec_context.time_base = TIME_BASE if pts is not None else Fraction(1, fps)
        if rotation:
            stream.set_display_rotation(rotation)
        sound = container.add_stream("aac", rate=48000) if audio else None
        for number, pixels in enumerate(frames):
            if pixels.ndim == 2:
                frame = _frame_of_luma(pixels, pixel_format)
            else:
                frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgb24")
            frame.pts = pts[number] if pts is not None else number
            frame.time_base = TIME_BASE if pts is not None else Fraction(1, fps)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
        if sound is not None:
            silence = np.zeros((1, 1024 * 2), np.int16)
            clip = av.AudioFrame.from_ndarray(silence, format="s16", layout="stereo")
            clip.sample_rate = 48000
            container.mux(sound.encode(clip))
            container.mux(sound.encode(None))
    return path


def _frame_of_luma(luma: NDArray[np.uint16], pixel_format: str) -> Any:
    """A frame with these samples of luma, and grey chroma if the format has any."""
    height, width = luma.shape
    frame = av.VideoFrame(width, height, pixel_format)
    for number, plane in enumerate(frame.planes):
        rows = np.frombuffer(plane, "<u2").reshape(-1, plane.line_size // 2)
        rows[:] = 1 << frame.format.components[number].bits - 1
        if not number:
            rows[:height, :width] = luma
    return frame


def write_videos(
    root: Path, kinds: Mapping[str, Mapping[str, Any]], num_frames: int, size: tuple[int, int]
) -> Path:
    """Write videos of different pictures into a folder, each with options of `write_video`; return the folder."""
    for seed, (name, options) in enumerate(kinds.items()):
        (root / name).parent.mkdir(exist_ok=True)
        write_video(root / name, pan(num_frames, size, seed=seed), **options)
    return root


def write_frames(folder: Path, frames: NDArray[np.uint8]) -> None:
    """Write frames as pictures into a folder: 000.png, 001.png and so on."""
    folder.mkdir(parents=True)
    for number, pixels in enumerate(frames):
        Image.fromarray(pixels).save(folder / f"{number:03d}.png")


def remux(source: Path, target: Path, change: Callable[[int, Any], bool], **options: Any) -> Path:
    """Copy the packets of a video, but for those that `change` refuses; it may alter them."""
    with av.open(str(source)) as read, av.open(str(target), "w", **options) as write:
        stream = write.add_stream_from_template(read.streams.video[0])
        for number, packet in enumerate(one for one in read.demux(video=0) if one.size):
            if change(number, packet):
                packet.stream = stream
                write.mux(packet)
    return target


def decode_all(path: Path) -> tuple[NDArray[np.int64], list[NDArray[np.uint8]]]:
    """Decode a whole video from its beginning, with one thread and FFmpeg's own colours.

    Returns:
        int64 [T], when each frame is shown; and T arrays uint8 [height, width, 3], not turned.
    """
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_type = "NONE"
        frames = list(container.decode(stream))
    pts = np.array([frame.pts for frame in frames], np.int64)
    return pts, [frame.reformat(format="rgb24").to_ndarray() for frame in frames]


@contextmanager
def usual_priority() -> Iterator[None]:
    """Undo what SVT-AV1 does to a thread of root: it goes before everybody else on the machine, for ever."""
    try:
        yield
    finally:
        if hasattr(os, "sched_setscheduler"):
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
