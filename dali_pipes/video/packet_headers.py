"""Properties of frames, read from the first bytes of a packet."""

from collections.abc import Iterator

from readers.sample import Payload
from readers.video.codecs.vpx import shows_existing_vp9

_IDR = 5  # of H.264
_IRAP = range(16, 22)  # of HEVC: pictures with which decoding can begin
_HEADER = 3  # the kind of the unit of AV1 that is a frame's header alone


def has_lengths(codec: str, extradata: bytes) -> bool:
    """Whether each unit of H.264 or HEVC comes behind its length in four bytes, as in MP4 and Matroska.

    Source: ISO/IEC 14496-15, 5.3.3 and 8.3.3.
    """
    offset = 4 if codec == "h264" else 21
    return len(extradata) > offset and extradata[0] == 1 and extradata[offset] & 3 == 3


def is_packed(codec: str, extradata: bytes) -> bool:
    """Whether packets may hold two frames, the second of which comes with the packet behind.

    Encoders of MPEG-4 that do that call themselves DivX; so FFmpeg goes by the name, too.
    """
    return codec == "mpeg4" and b"DivX" in extradata


def begins_anew(codec: str, packet: Payload) -> bool:
    """Whether decoders that were not given the packets before can begin with this one.

    Some files mark packets of H.264 as keyframes whose pictures are only sound after a while. Of units
    with lengths; other codecs' keyframes all do.
    """
    if codec == "h264":
        return any(unit[0] & 31 == _IDR for unit in _units(packet))
    if codec == "hevc":
        return any(unit[0] >> 1 & 63 in _IRAP for unit in _units(packet))
    return True


def shows_earlier(codec: str, packet: Payload) -> bool:
    """Whether a packet only says that a frame which is decoded already is shown: in VP9 and AV1.

    Source for AV1: its bitstream specification, 5.3 and 5.9.2.
    """
    if codec == "vp9":
        return shows_existing_vp9(packet)
    if codec == "av1":
        return any(kind == _HEADER and unit[0] >> 7 for kind, unit in _av1_units(packet))
    return False


def _units(packet: Payload) -> Iterator[Payload]:
    start = 0
    while start + 4 < len(packet):
        stop = start + 4 + int.from_bytes(packet[start : start + 4], "big")
        yield packet[start + 4 : max(stop, start + 5)]
        start = stop


def _av1_units(packet: Payload) -> Iterator[tuple[int, Payload]]:
    start = 0
    while start < len(packet):
        head = packet[start]
        start += 2 if head & 4 else 1
        size, shift = 0, 0
        while head & 2 and start < len(packet):
            size |= (packet[start] & 127) << shift
            shift, start = shift + 7, start + 1
            if packet[start - 1] < 128:
                break
        stop = start + size if head & 2 else len(packet)
        if start < min(stop, len(packet)):
            yield head >> 3 & 15, packet[start:stop]
        start = stop
