"""Decoding a whole video once, to learn which of its packets are shown, and in which order."""

from typing import Any, NamedTuple

from readers.sample import Payload
from readers.video.containers.open import (
    MAX_PIXELS,
    Deadline,
    VideoError,
    find_stream,
    open_container,
    prepare_decoder,
)


class Learned(NamedTuple):
    """The result of decoding a video from its beginning with FFmpeg.

    Attributes:
        packets: For each frame, in the order of presentation, the packet that holds it.
        keys: The packets with whose frames decoding can begin.
        first: The first frame.
    """

    packets: list[int]
    keys: list[int]
    first: Any


def learn_frames(data: Payload, sizes: list[int], deadline: Deadline) -> Learned:
    """Decode all frames.

    Args:
        data: The whole file.
        sizes: Sizes of the packets that count, in bytes; what follows them is left out.
        deadline: When to give up.

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
    """Yield frames whose ``pts`` is the number of their packet."""
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
            continue  # one packet; what it takes with it does not come
    try:
        yield from context.decode(None)
    except av.FFmpegError:
        return
