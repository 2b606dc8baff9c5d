"""Read the types of the units (NAL units) in packets of H.264 and HEVC, without decoding."""

from readers.sample import Payload

# Types of units that are not part of a picture: parameter sets, messages, delimiters, filler.
_OTHERS = {"h264": range(6, 14), "hevc": range(32, 41)}


def count_pictures(codec: str, setup: bytes, packet: Payload) -> int:
    """Return the number of frames that a packet shows: 0 if none of its units is part of a picture, else 1.

    A packet also counts as one frame if it is not a sequence of units with their lengths, the form in MP4 and Matroska.

    Args:
        codec: Name of the codec, "h264" or "hevc".
        setup: The stream's extradata (ISO/IEC 14496-15, 5.3.3 and 8.3.3).
        packet: Bytes of the packet.
    """
    offset = 4 if codec == "h264" else 21
    if len(setup) <= offset or setup[0] != 1:
        return 1
    width = (setup[offset] & 3) + 1
    start = 0
    while start + width < len(packet):
        head = packet[start + width]
        kind = head & 31 if codec == "h264" else head >> 1 & 63
        if kind not in _OTHERS[codec]:
            return 1
        start += width + int.from_bytes(packet[start : start + width], "big")
    return 0 if start == len(packet) else 1
