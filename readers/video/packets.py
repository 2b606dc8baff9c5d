"""Read the packets of a video, and find out by decoding which packets hold frames that are shown."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from readers.sample import Payload
from readers.storage.blob import BlobPayload, Content
from readers.storage.blob.mapped import copied
from readers.storage.unreadable import reason_of
from readers.video.containers.elementary_stream import Strand
from readers.video.containers.open import (
    MAX_PIXELS,
    SCAN_SECONDS,
    Deadline,
    VideoError,
    find_stream,
    open_container,
    prepare_decoder,
)
from readers.video.info import VideoInfo

_PACKETS_PER_READ = 64
"""Packets of a remote video that are read together: a group of pictures mostly has fewer, and a read of more delays the first."""


def read_packets(
    data: Payload, info: VideoInfo, start: int, stop: int, deadline: Deadline | None = None
) -> Iterator[Any]:
    """Yield a range of packets, in the order of decoding, for a decoder.

    Packets with known offsets are yielded as bytes, read from the file or joined from pieces. If offsets are unknown, the
    container is read from its beginning, which takes time; each packet is then an `av.Packet`.

    Args:
        data: The bytes of the complete file; of a `BlobPayload` the packets are read many at a time.
        info: Metadata of the video.
        start: Index of the first packet, >= 0.
        stop: Index after the last packet, at most ``len(info.packet_pts)``.
        deadline: Time limit; None is `SCAN_SECONDS` from now.

    Raises:
        VideoError: The file cannot be read, or its packets are not those of `info`.
    """
    if info.wrapping:
        yield from _gather(data, info, start, stop)
        return
    if len(info.packet_offsets):
        try:
            for number, content in enumerate(_contents(data, info, start, stop), start=start):
                if len(content) < info.packet_sizes[number]:
                    raise VideoError(f"the file ends within packet {number}")
                yield content
        except OSError as error:
            raise VideoError(f"the file cannot be read: {reason_of(error)}") from None
        return
    with open_container(data, deadline or Deadline(SCAN_SECONDS)) as container:
        stream = container.streams[info.stream_index]
        filled = (packet for packet in container.demux(stream) if packet.size)
        for number, packet in enumerate(islice(filled, start, stop), start=start):
            if packet.size != info.packet_sizes[number]:
                raise VideoError(f"packet {number} is not the one that was indexed")
            yield packet


def _contents(data: Content, info: VideoInfo, start: int, stop: int) -> Iterator[Payload]:
    """Yield the bytes of packets whose offsets are known; those of a remote video are read many at a time."""
    starts = info.packet_offsets[start:stop]
    spans = np.stack([starts, starts + info.packet_sizes[start:stop]], 1).tolist()
    if isinstance(data, BlobPayload):
        for first in range(0, len(spans), _PACKETS_PER_READ):
            yield from data.read(spans[first : first + _PACKETS_PER_READ])
        return
    for begin, end in spans:
        yield copied(data[begin:end])


def _gather(data: Payload, info: VideoInfo, start: int, stop: int) -> Iterator[Payload]:
    strand = Strand(data, info.wrapping)
    for number in range(start, stop):
        location = int(info.packet_places[number, 0]), int(info.packet_places[number, 1])
        try:
            if strand.location != location:
                strand.seek(*location)
            content = strand.read(int(info.packet_sizes[number]))
        except OSError as error:
            raise VideoError(f"the file cannot be read: {reason_of(error)}") from None
        if len(content) < info.packet_sizes[number]:
            raise VideoError(f"packet {number} is not where it was when the video was indexed")
        yield content


class Learned(NamedTuple):
    """The result of decoding a video from its beginning with FFmpeg.

    Attributes:
        packets: For each frame, in the order of presentation, the index of the packet that holds it.
        keys: Indices of the packets at which decoding can begin.
        first: The first frame, an `av.VideoFrame`.
    """

    packets: list[int]
    keys: list[int]
    first: Any


def learn_frames(data: Content, sizes: list[int], deadline: Deadline) -> Learned:
    """Decode all frames of a video, and return which packets hold them.

    Args:
        data: The bytes of the complete file.
        sizes: Sizes of the packets to decode, in bytes; only their number is used, later packets are ignored.
        deadline: Time limit.

    Raises:
        VideoError: No frame can be decoded, or a packet holds several.
    """
    packets: list[int] = []
    keys: list[int] = []
    first = None
    with open_container(data, deadline) as container:
        for frame in _frames(container, len(sizes), deadline):
            if first is None:
                first = frame
            packets.append(frame.pts)
            if frame.key_frame:
                keys.append(frame.pts)
    if first is None:
        raise VideoError(f"no frame of at most {MAX_PIXELS:,} pixels can be decoded")
    if None in packets or len(set(packets)) < len(packets):
        raise VideoError("one of its packets holds several frames")
    return Learned(packets, keys, first)


def _frames(container: Any, num_packets: int, deadline: Deadline) -> Any:
    """Decode and yield frames, whose ``pts`` is set to the index of their packet.

    Args:
        container: The open `av.container.InputContainer`.
        num_packets: Number of packets to decode.
        deadline: Time limit.
    """
    import av

    stream = find_stream(container)
    context = prepare_decoder(stream)
    number = 0
    demuxed = container.demux(stream)
    while number < num_packets:
        packet = next(demuxed, None)
        if packet is None:
            break
        if not packet.size:
            continue
        deadline.check()
        packet.pts = packet.dts = number
        number += 1
        try:
            yield from context.decode(packet)
        except av.FFmpegError:
            continue  # frames of this packet are missing
    try:
        yield from context.decode(None)
    except av.FFmpegError:
        return
