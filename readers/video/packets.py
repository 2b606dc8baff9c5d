"""The bytes of a video's packets, cut out of its file, put together of pieces, or read through its container."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from readers.sample import Payload
from readers.storage.blob.mapped import copied
from readers.storage.unreadable import reason_of
from readers.video.containers.elementary_stream import Strand
from readers.video.containers.open import SCAN_SECONDS, Deadline, VideoError, open_container
from readers.video.info import VideoInfo


def read_packets(
    data: Payload, info: VideoInfo, start: int, stop: int, deadline: Deadline | None = None
) -> Iterator[Any]:
    """Yield the bytes of packets, as the decoder takes them.

    They are cut out of the file where they lie there in one piece, or put together of pieces. Where neither is
    known all of the container up to them is read, which takes time: these are an `av.Packet` each.

    Args:
        data: The whole file.
        info: Metadata of the video.
        start: The first packet, 0 <= start.
        stop: The packet after the last, at most ``len(info.packet_pts)``.
        deadline: When to give up; None is `SCAN_SECONDS` from now on.

    Raises:
        VideoError: There are fewer.
    """
    if info.wrapping:
        yield from _gather(data, info, start, stop)
        return
    if len(info.packet_offsets):
        view = memoryview(data)
        for number in range(start, stop):
            offset, size = int(info.packet_offsets[number]), int(info.packet_sizes[number])
            try:
                content = copied(view[offset : offset + size])
            except OSError as error:
                raise VideoError(f"the file cannot be read: {reason_of(error)}") from None
            if len(content) < size:
                raise VideoError(f"the file ends within packet {number}")
            yield content
        return
    with open_container(data, deadline or Deadline(SCAN_SECONDS)) as container:
        stream = container.streams[info.stream_index]
        filled = (packet for packet in container.demux(stream) if packet.size)
        for number, packet in enumerate(islice(filled, start, stop), start=start):
            if packet.size != info.packet_sizes[number]:
                raise VideoError(f"packet {number} is not the one that was indexed")
            yield packet


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
