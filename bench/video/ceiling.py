"""Decoding alone: the upper bound for pipelines that decode these clips with these libraries."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from bench.compare.contestant import Kind, Share
from bench.compare.threads import NUM_AHEAD, ThreadedBatches
from bench.timing.limits import one_thread
from bench.video.libraries import NUM_TRIED, fastest_seek, load_torchcodec, torchcodec_frames
from bench.video.plan import Clip, ClipFooting
from dali_pipes.video.codec import padded_packet
from readers.storage.blob.mmap_pages import map_file
from readers.video import read_packets

# Decoders that ask before each packet whether it may be passed over.
_SKIPPING = frozenset({"h264", "hevc", "mpeg4", "vp8"})


class _Decoding:
    """Clips decoded on threads, and then forgotten."""

    kind: Kind = "ceiling"
    num_ahead = NUM_AHEAD
    num_discard = NUM_AHEAD + 1
    name: str
    note: str
    _batches: ThreadedBatches[object] | None = None

    def __init__(self, footing: ClipFooting) -> None:
        self._footing = footing

    def next_batch(self) -> torch.Tensor:
        """Decode a batch; the result has its length and no pixels."""
        if self._batches is None:
            raise RuntimeError(f"{self.name} is not open")
        return torch.empty(len(self._batches.next()), 0)

    def share(self) -> Share:
        """Reading and decoding together, which are not measured separately."""
        return {"read": None, "decode": 1.0, "augment": 0.0, "copy": 0.0}

    def close(self) -> None:
        """Stop the threads."""
        if self._batches is not None:
            self._batches.close()

    def _start(self, decode: Callable[[Clip], object]) -> None:
        footing = self._footing
        self._batches = ThreadedBatches(
            lambda position: decode(footing.plan[position]),
            footing.batch_size,
            footing.num_threads,
        )


class LibavcodecOnly(_Decoding):
    """FFmpeg's decoder on the packets that the frames need: no container, no colours, no resizing."""

    name = "libavcodec alone"
    note = (
        "the packets from the keyframes on, those passed over that nobody needs, one thread per clip; "
        "frames stay as YUV in the decoder's memory"
    )

    def open(self) -> None:
        """Take PyAV for the way to libavcodec."""
        self._start(decode_packets)


class TorchcodecOnly(_Decoding):
    """torchcodec's whole frames as RGB: no resizing."""

    name = "torchcodec decode only"
    note = "VideoDecoder.get_frames_at, one FFmpeg thread per clip, on threads"

    def open(self) -> None:
        """Choose among the ways of seeking.

        Raises:
            Unable: It does not load.
        """
        load_torchcodec()
        with one_thread():
            seek, _ = fastest_seek(self._footing.plan.first(NUM_TRIED))
        self.note += f"; {seek} seeking"
        self._start(lambda clip: torchcodec_frames(clip, seek))


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
