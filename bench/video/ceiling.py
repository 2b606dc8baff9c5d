"""Decoding alone: the upper bound for pipelines that decode these clips with these libraries."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from bench.compare.contestant import Pipeline, Task
from bench.compare.threads import NUM_AHEAD, threaded_batches
from bench.video.libraries import fastest_seek, load_torchcodec, torchcodec_frames
from bench.video.plan import Clip
from dali_pipes.video.codec import padded_packet
from readers.storage.blob.mmap_pages import map_file
from readers.video import read_packets

# Decoders that ask before each packet whether it may be passed over.
_SKIPPING = frozenset({"h264", "hevc", "mpeg4", "vp8"})


def libavcodec(task: Task) -> Pipeline:
    """Decode the packets that the frames need: no container, no colours, no resizing."""
    note = (
        "the packets from the keyframes on, those passed over that nobody needs, one thread per clip; "
        "frames stay as YUV in the decoder's memory"
    )
    return _decoding(task, decode_packets, note)


def torchcodec(task: Task) -> Pipeline:
    """Decode whole frames as RGB: no resizing.

    Raises:
        Unable: torchcodec does not load.
    """
    load_torchcodec()
    seek, _ = fastest_seek(task.clips)
    note = f"VideoDecoder.get_frames_at, one FFmpeg thread per clip, on threads; {seek} seeking"
    return _decoding(task, lambda clip: torchcodec_frames(clip, seek), note)


def _decoding(task: Task, decode: Callable[[Clip], object], note: str) -> Pipeline:
    batches = threaded_batches(
        lambda position: decode(task.clips[position]), task.batch_size, task.num_threads
    )
    # Of their length and without pixels.
    lengths = (torch.empty(len(clips), 0) for clips in batches)
    return Pipeline(lengths, note, NUM_AHEAD, NUM_AHEAD + 1)


def decode_packets(clip: Clip) -> int:
    """Decode what a clip needs and count its frames.

    Raises:
        RuntimeError: Frames are missing.
    """
    import av

    info = clip.info
    context: Any = av.CodecContext.create(info.decoder, "r")
    context.extradata = info.extradata
    context.thread_count, context.thread_type = 1, "NONE"
    content: Any = memoryview(map_file(clip.path))
    wanted = set(clip.pts.tolist())
    found: set[int] = set()
    for packets in _runs(clip):
        contents = read_packets(content, info, packets.start, packets.stop)
        for number, encoded in zip(packets, contents, strict=True):
            pts = int(info.packet_pts[number])
            packet = padded_packet(encoded)
            packet.pts = pts
            if info.decoder in _SKIPPING:
                context.skip_frame = "DEFAULT" if pts in wanted else "NONREF"
            found |= {frame.pts for frame in context.decode(packet)}
        found |= {frame.pts for frame in context.decode(None)}
        context.flush_buffers()
    if wanted - found:
        raise RuntimeError(f"{len(wanted - found)} frames of {clip.path.name} are missing")
    return len(wanted)


def _runs(clip: Clip) -> Iterator[range]:
    """The packets from each keyframe that is needed to the last wanted frame behind it."""
    info = clip.info
    packet_of = np.argsort(info.packet_pts, kind="stable")
    packets = packet_of[np.unique(clip.frames)]
    keys = info.keyframes[np.argsort(info.packet_pts[info.keyframes], kind="stable")]
    group = np.searchsorted(info.packet_pts[keys], info.packet_pts[packets], side="right") - 1
    starts = keys[np.maximum(group, 0)]
    bounds = [0, *(np.flatnonzero(np.diff(starts)) + 1).tolist(), len(starts)]
    for first, last in pairwise(bounds):
        yield range(int(starts[first]), int(packets[first:last].max()) + 1)
