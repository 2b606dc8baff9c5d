"""Decoding the frames of a clip on the CPU, with PyAV."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dali_pipes.errors import DecodeError
from dali_pipes.video.packets import Run, plan_runs
from readers.sample import Payload
from readers.video import VideoInfo

_BT601 = 5

# Decoders that ask before each packet whether it may be passed over; libdav1d asks once, others never.
_SKIPPING = frozenset({"h264", "hevc", "mpeg1video", "mpeg2video", "mpeg4", "vp8"})


def decode_frames(
    data: Payload, info: VideoInfo, frames: NDArray[np.int64]
) -> dict[int, NDArray[np.uint8]]:
    """Decode some frames of a video, each once.

    Packets whose frames are not wanted and that no other frame refers to are not decoded.

    Args:
        data: The whole file.
        info: What was found in it.
        frames: int64 [n], 0 <= frame < len(info), repetitions allowed.

    Returns:
        Frame -> uint8 [height, width, 3], RGB, upright.

    Raises:
        DecodeError: One of them cannot be decoded.
    """
    import av

    found: dict[int, NDArray[np.uint8]] = {}
    context = _open(info)
    view = memoryview(data)
    try:
        for run in plan_runs(info, frames):
            for frame in _decode_run(context, info, view, run):
                place = int(np.searchsorted(info.pts, frame.pts))
                found[place] = _to_rgb(frame, info)
            context.flush_buffers()
    except av.FFmpegError as error:
        raise DecodeError(f"FFmpeg: {error.strerror}") from error
    missing = set(np.unique(frames).tolist()) - set(found)
    if missing:
        raise DecodeError(f"frame {min(missing)} of {len(info)} cannot be decoded")
    return found


def _open(info: VideoInfo) -> Any:
    import av

    context = av.CodecContext.create(info.decoder, "r")
    context.extradata = info.extradata
    context.thread_count = 1
    context.thread_type = "NONE"
    return context


def _decode_run(context: Any, info: VideoInfo, view: memoryview, run: Run) -> Any:
    import av

    wanted = set(info.packet_pts[run.start : run.stop][run.wanted].tolist())
    skips = info.decoder in _SKIPPING
    for place, shown in enumerate(run.wanted.tolist(), start=run.start):
        offset, size = int(info.packet_offsets[place]), int(info.packet_sizes[place])
        packet = av.Packet(view[offset : offset + size])
        packet.pts = int(info.packet_pts[place])
        if skips:
            context.skip_frame = "DEFAULT" if shown else "NONREF"
        for frame in context.decode(packet):
            if frame.pts in wanted:
                yield frame
    for frame in context.decode(None):
        if frame.pts in wanted:
            yield frame


def _to_rgb(frame: Any, info: VideoInfo) -> NDArray[np.uint8]:
    matrix = _BT601 if info.matrix == 2 else info.matrix
    rgb = frame.reformat(format="rgb24", src_colorspace=matrix).to_ndarray()
    if info.rotation:
        rgb = np.ascontiguousarray(np.rot90(rgb, -info.rotation // 90))
    return rgb
