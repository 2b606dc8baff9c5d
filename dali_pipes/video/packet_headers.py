"""Read properties of frames from the first bytes of their packets."""

from collections.abc import Iterator

from readers.sample import Payload
from readers.video.codecs.vpx import shows_existing_vp9

_IDR = 5  # unit type of H.264: a picture at which decoding can start
_IRAP = range(16, 22)  # unit types of HEVC: pictures at which decoding can start
_FRAME_HEADER = 3  # unit type of AV1: the header of a frame without its data


def has_lengths(codec: str, extradata: bytes) -> bool:
    """Return whether each unit of H.264 or HEVC is preceded by its length in four bytes, as in MP4 and Matroska.

    Source: ISO/IEC 14496-15, 5.3.3 and 8.3.3.
    """
    offset = 4 if codec == "h264" else 21
    return len(extradata) > offset and extradata[0] == 1 and extradata[offset] & 3 == 3


def is_packed(codec: str, extradata: bytes) -> bool:
    """Return whether packets may contain two frames; the decoder returns the second one with the next packet.

    MPEG-4 encoders that do this write the name DivX, by which FFmpeg recognises them, too.
    """
    return codec == "mpeg4" and b"DivX" in extradata


def begins_anew(codec: str, packet: Payload) -> bool:
    """Return whether decoding can start with a packet that is marked as a keyframe.

    Some files mark H.264 packets as keyframes although their pictures are complete only after several frames. H.264 and
    HEVC must have units with lengths, see `has_lengths`. For other codecs, decoding can start with every keyframe.
    """
    if codec == "h264":
        return any(unit[0] & 31 == _IDR for unit in _units(packet))
    if codec == "hevc":
        return any(unit[0] >> 1 & 63 in _IRAP for unit in _units(packet))
    return True


def shows_earlier(codec: str, packet: Payload) -> bool:
    """Return whether a VP9 or AV1 packet only displays a frame that was decoded before.

    Source for AV1: its bitstream specification, 5.3 and 5.9.2.
    """
    if codec == "vp9":
        return shows_existing_vp9(packet)
    if codec == "av1":
        return any(kind == _FRAME_HEADER and unit[0] >> 7 for kind, unit in _av1_units(packet))
    return False


def _units(packet: Payload) -> Iterator[Payload]:
    """Yield the units of an H.264 or HEVC packet, without their lengths."""
    start = 0
    while start + 4 < len(packet):
        stop = start + 4 + int.from_bytes(packet[start : start + 4], "big")
        yield packet[start + 4 : max(stop, start + 5)]
        start = stop


def _av1_units(packet: Payload) -> Iterator[tuple[int, Payload]]:
    """Yield type and payload of each unit (OBU) of an AV1 packet."""
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
