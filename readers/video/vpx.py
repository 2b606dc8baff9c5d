"""How many frames packets of VP8 and VP9 show: the headers of frames say so, without decoding."""

from collections.abc import Iterator


def count_vp8(packet: bytes) -> int:
    """Frames that a packet of VP8 shows: 1, or 0 for an alternative reference (RFC 6386, 9.1)."""
    return packet[0] >> 4 & 1


def count_vp9(packet: bytes) -> int:
    """Frames that a packet of VP9 shows; all but the last of a superframe are hidden, as a rule.

    By the uncompressed header and annex B of the VP9 bitstream specification.
    """
    return sum(map(_is_shown, _frames_of(packet)))


def _frames_of(packet: bytes) -> Iterator[int]:
    """Yield the first byte of each frame in a packet."""
    marker = packet[-1]
    if marker >> 5 == 0b110:
        count, width = (marker & 7) + 1, (marker >> 3 & 3) + 1
        index = packet[-2 - count * width :]
        if len(index) == 2 + count * width and index[0] == marker:
            place = 0
            for number in range(count):
                size = int.from_bytes(index[1 + number * width :][:width], "little")
                if size and place < len(packet):
                    yield packet[place]
                place += size
            return
    yield packet[0]


def _is_shown(first: int) -> bool:
    # Two bits of marker, two of profile, and one more where the profile is 3.
    bits = first << 1 if first >> 4 & 3 == 3 else first
    shows_existing, shown = bits >> 3 & 1, bits >> 1 & 1
    return bool(shows_existing or shown)
