"""Read frame headers of VP8 and VP9, without decoding."""

from collections.abc import Iterator

from readers.sample import Payload

_START_CODE = b"\x9d\x01\x2a"
"""Bytes 3 to 5 of a keyframe of VP8."""


def count_vp8(packet: Payload) -> int:
    """Return the number of frames that a packet of VP8 shows: 0 for an alternative reference (RFC 6386, 9.1), else 1.

    Bytes that are not a frame, such as zeros, count as one frame: the decoder will report them.
    """
    is_frame = packet[0] & 1 or packet[3:6] == _START_CODE
    return packet[0] >> 4 & 1 if is_frame else 1


def count_vp9(packet: Payload) -> int:
    """Return the number of frames that a packet of VP9 shows; in a superframe usually all frames but the last are hidden.

    Bytes that are not a frame count as one frame: the decoder will report them.
    """
    heads = list(_heads(packet))
    shown = sum(shows_existing or shown for _, shows_existing, shown in heads)
    is_sound = heads and all(is_frame for is_frame, _, _ in heads)
    return shown if is_sound else max(shown, 1)


def shows_existing_vp9(packet: Payload) -> bool:
    """Return whether a packet of VP9 shows a frame again that an earlier packet has decoded."""
    return any(shows_existing for _, shows_existing, _ in _heads(packet))


def _heads(packet: Payload) -> Iterator[tuple[bool, bool, bool]]:
    """Parse the uncompressed headers of the frames in a packet (VP9 bitstream specification, 6.2).

    Yields:
        For each frame, whether its header is valid, whether it shows a frame that was decoded before, and whether its own
        picture is shown.
    """
    for first in _first_bytes(packet):
        # Two bits of marker, two of profile, and one more where the profile is 3.
        bits = first << 1 if first >> 4 & 3 == 3 else first
        yield first >> 6 == 0b10, bool(bits >> 3 & 1), bool(bits >> 1 & 1)


def _first_bytes(packet: Payload) -> Iterator[int]:
    """Yield the first byte of each frame in a packet; a superframe ends with the sizes of its frames (annex B)."""
    marker = packet[-1]
    if marker >> 5 == 0b110:
        count, width = (marker & 7) + 1, (marker >> 3 & 3) + 1
        index = packet[-2 - count * width :]
        if len(index) == 2 + count * width and index[0] == marker:
            offset = 0
            for number in range(count):
                size = int.from_bytes(index[1 + number * width :][:width], "little")
                if size and offset < len(packet):
                    yield packet[offset]
                offset += size
            return
    yield packet[0]
