"""Make broken files of every kind from sound pictures."""

import io
import struct
from typing import Any

import numpy as np
from PIL import Image

from bench.compare.photographs import encode

END = b"\xff\xd9"
_TABLES, _QUANTISATION, _FRAME, _SCAN = b"\xff\xc4", b"\xff\xdb", b"\xff\xc0", b"\xff\xda"
_COMMENT = b"\xff\xfe"  # decoders skip it


def broken_files(sound: bytes) -> dict[str, bytes]:
    """Return broken files by kind; the name says how the file was changed. Some of them decode, but to wrong pixels.

    Args:
        sound: A baseline JPEG with one scan and no thumbnail.
    """
    progressive = _again(sound, "JPEG", progressive=True, quality=90)
    frame, tables, first = sound.index(_FRAME) + 5, sound.index(_TABLES) + 5, _codes(sound)
    height, width = struct.unpack_from(">HH", sound, frame)

    def sized(*size: int) -> bytes:
        return _overwritten(sound, frame, struct.pack(">HH", *size))

    return {
        "cut at 40 bytes": sound[:40],
        "cut in the header": sound[: sound.index(_SCAN) - 7],
        "cut after the header": sound[: first + 4],
        "cut at 50 %": _cut(sound, 0.5),
        "cut at 95 %": _cut(sound, 0.95),
        "cut at 50 %, end marker put back": _cut(sound, 0.5) + END,
        "cut at 95 %, end marker put back": _cut(sound, 0.95) + END,
        "no end marker": sound[:-2],
        "progressive, cut at 50 %": _cut(progressive, 0.5),
        "progressive, cut, end marker put back": _cut(progressive, 0.5) + END,
        "nonsense Huffman tables": _overwritten(sound, tables, b"\xff" * 16),
        "no Huffman tables": sound.replace(_TABLES, _COMMENT),
        "no quantisation tables": sound.replace(_QUANTISATION, _COMMENT),
        "bits flipped in the scan": flipped(sound, 20),
        "scan of zeros": _overwritten(sound, first, bytes(len(sound) - 2 - first)),
        "second half of the scan random": _random_half(sound),
        "twice the height in the header": sized(2 * height, width),
        "twice the width in the header": sized(height, 2 * width),
        "65500 by 65500 in the header": sized(65500, 65500),
        "3000 by 3000 in the header": sized(3000, 3000),
        "height 0 in the header": sized(0, width),
        "one flipped bit in the first byte": bytes([sound[0] ^ 1]) + sound[1:],
        "no bytes": b"",
        "text": b"This is no picture.\n" * 40,
        "text between JPEG's markers": sound[:2] + b"This is no picture.\n" * 40 + END,
        "PNG, cut": _cut(_again(sound, "PNG"), 0.5),
    }


def flipped(data: bytes, count: int) -> bytes:
    """Return a JPEG with `count` bits of its scan flipped, in bytes that are not part of a marker."""
    rng = np.random.default_rng(0)
    changed = bytearray(data)
    for at in rng.integers(_codes(data), len(data) - 2, count).tolist():
        if 0xFF not in (data[at - 1], data[at], data[at] ^ 16):
            changed[at] ^= 16
    return bytes(changed)


def _again(sound: bytes, encoding: str, **options: Any) -> bytes:
    """Return the picture of a JPEG encoded again by Pillow."""
    with Image.open(io.BytesIO(sound)) as opened:
        return encode(opened, format=encoding, **options)


def _codes(data: bytes) -> int:
    """Return the offset of the codes of a JPEG's first scan, after its header."""
    at = data.index(_SCAN) + 2
    return at + int.from_bytes(data[at : at + 2], "big")


def _cut(data: bytes, share: float) -> bytes:
    """Return a file truncated to a share of its bytes; for a JPEG, to a share of the bytes after its header."""
    first = _codes(data) if data[:2] == b"\xff\xd8" else 0
    return data[: first + int((len(data) - first) * share)]


def _overwritten(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


def _random_half(data: bytes) -> bytes:
    """Return a JPEG whose scan has random bytes without markers as its second half."""
    middle = (_codes(data) + len(data)) // 2
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 255, len(data) - 2 - middle, dtype=np.uint8)  # never 255
    return _overwritten(data, middle, noise.tobytes())
