"""Broken files of every kind, made of sound pictures."""

import io
from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image

END = b"\xff\xd9"
_DHT, _DQT, _SOF, _PROGRESSIVE, _SCAN = 0xC4, 0xDB, 0xC0, 0xC2, 0xDA


def broken_files(sound: bytes) -> dict[str, bytes]:
    """Files by kind; the name says what was done. Some decode nevertheless, to wrong pixels.

    Args:
        sound: A baseline JPEG with one scan.
    """
    progressive = again(sound, "JPEG", progressive=True, quality=90)
    return {
        "cut at 40 bytes": sound[:40],
        "cut in the header": sound[: segment(sound, _SCAN) - 7],
        "cut after the header": sound[: scan(sound) + 4],
        "cut at 50 %": cut(sound, 0.5),
        "cut at 95 %": cut(sound, 0.95),
        "cut at 50 %, end marker put back": cut(sound, 0.5) + END,
        "cut at 95 %, end marker put back": cut(sound, 0.95) + END,
        "no end marker": sound[:-2],
        "progressive, cut at 50 %": cut(progressive, 0.5),
        "progressive, cut, end marker put back": cut(progressive, 0.5) + END,
        "nonsense Huffman tables": overwritten(sound, segment(sound, _DHT) + 5, b"\xff" * 16),
        "no Huffman tables": without(sound, _DHT),
        "no quantisation tables": without(sound, _DQT),
        "bits flipped in the scan": flipped(sound, 20),
        "scan of zeros": overwritten(sound, scan(sound), bytes(len(sound) - 2 - scan(sound))),
        "second half of the scan random": _random_half(sound),
        "twice the height in the header": resized(sound, lambda height, width: (2 * height, width)),
        "twice the width in the header": resized(sound, lambda height, width: (height, 2 * width)),
        "65500 by 65500 in the header": resized(sound, lambda *_: (65500, 65500)),
        "3000 by 3000 in the header": resized(sound, lambda *_: (3000, 3000)),
        "height 0 in the header": resized(sound, lambda _, width: (0, width)),
        "one flipped bit in the first byte": bytes([sound[0] ^ 1]) + sound[1:],
        "no bytes": b"",
        "text": b"This is no picture.\n" * 40,
        "text between JPEG's markers": sound[:2] + b"This is no picture.\n" * 40 + END,
        "PNG, cut": cut(again(sound, "PNG"), 0.5),
    }


def again(sound: bytes, encoding: str, **options: Any) -> bytes:
    """The same picture, encoded by Pillow."""
    stream = io.BytesIO()
    with Image.open(io.BytesIO(sound)) as opened:
        opened.save(stream, encoding, **options)
    return stream.getvalue()


def cut(data: bytes, share: float) -> bytes:
    """The first share of the bytes; of a JPEG's, of those behind its header."""
    first = scan(data) if data[:2] == b"\xff\xd8" else 0
    return data[: first + int((len(data) - first) * share)]


def segment(data: bytes, marker: int) -> int:
    """Offset of the first segment of a JPEG with a marker.

    Raises:
        ValueError: There is none before the scan.
    """
    at = 2
    while at + 4 <= len(data):
        if data[at + 1] == marker:
            return at
        if data[at + 1] == _SCAN:
            break
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    raise ValueError(f"the JPEG has no segment {marker:#x} before its scan; give another one")


def scan(data: bytes) -> int:
    """Offset of a JPEG's first scan, behind its header."""
    at = segment(data, _SCAN)
    return at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")


def overwritten(data: bytes, at: int, new: bytes) -> bytes:
    """The file with other bytes at an offset."""
    return data[:at] + new + data[at + len(new) :]


def without(data: bytes, marker: int) -> bytes:
    """A JPEG without its segments of a marker."""
    try:
        while True:
            at = segment(data, marker)
            data = data[:at] + data[at + 2 + int.from_bytes(data[at + 2 : at + 4], "big") :]
    except ValueError:
        return data


def resized(data: bytes, change: Callable[[int, int], tuple[int, int]]) -> bytes:
    """A JPEG whose header claims another height and width."""
    at = segment(data, _SOF) + 5
    size = int.from_bytes(data[at : at + 2], "big"), int.from_bytes(data[at + 2 : at + 4], "big")
    height, width = change(*size)
    return overwritten(data, at, height.to_bytes(2, "big") + width.to_bytes(2, "big"))


def flipped(data: bytes, count: int) -> bytes:
    """A JPEG with single bits flipped in its scan, of bytes that are no part of a marker."""
    rng = np.random.default_rng(0)
    changed = bytearray(data)
    for at in rng.integers(scan(data), len(data) - 2, count).tolist():
        if 0xFF not in (data[at - 1], data[at], data[at] ^ 16):
            changed[at] ^= 16
    return bytes(changed)


def _random_half(data: bytes) -> bytes:
    """A JPEG whose scan goes on with random bytes, which are no markers."""
    middle = (scan(data) + len(data)) // 2
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 255, len(data) - 2 - middle, dtype=np.uint8)  # never 255
    return overwritten(data, middle, noise.tobytes())
