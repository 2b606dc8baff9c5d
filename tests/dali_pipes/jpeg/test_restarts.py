"""Restart intervals that a crop does not need are jumped over, by their markers or by known offsets."""

import re

import numpy as np
import pytest

from dali_pipes.jpeg import REASONS
from tests.support.jpegs import decode, draw_crop, encode, opencv, ours, picture

HEIGHT, WIDTH = 90, 130


def offsets_of(data: bytes) -> np.ndarray:
    """Where the restart intervals begin in a file."""
    scan = data.index(b"\xff\xda")
    scan += 2 + int.from_bytes(data[scan + 2 : scan + 4], "big")
    markers = re.finditer(rb"\xff[\xd0-\xd7]", data[scan:])
    return np.array([scan, *(scan + found.end() for found in markers)], np.int64)


def decode_with(data: bytes, offsets: np.ndarray, crop: tuple[int, ...]) -> tuple[int, np.ndarray]:
    """Decode a crop with the offsets given."""
    out = np.zeros((crop[2], crop[3], 3), np.uint8)
    return decode(data, (HEIGHT, WIDTH), crop, out, offsets=offsets), out


@pytest.mark.parametrize("sampling", ["4:2:0", "4:4:4", "gray"])
@pytest.mark.parametrize("restart", [1, 3, 9, 50])
def test_known_offsets_give_the_same_pixels(sampling: str, restart: int) -> None:
    """Crops decoded with the intervals' offsets are cuts of the whole picture."""
    rng = np.random.default_rng(restart)
    data = encode(picture(HEIGHT, WIDTH), sampling, restart=restart)
    whole, offsets = opencv(data), offsets_of(data)
    for _ in range(25):
        crop = draw_crop(rng, HEIGHT, WIDTH)
        top, left, rows, columns = crop

        status, pixels = decode_with(data, offsets, crop)

        assert REASONS[status] == "decoded"
        np.testing.assert_array_equal(pixels, whole[top : top + rows, left : left + columns])


def test_what_is_jumped_over_is_not_read() -> None:
    """Damage in intervals above the crop does no harm; inside it, the file is refused."""
    data = encode(picture(HEIGHT, WIDTH), "4:4:4", restart=17)  # an interval is a row of MCUs
    offsets, whole = offsets_of(data), opencv(data)
    damaged = bytearray(data)
    damaged[offsets[3] : offsets[4] - 2] = bytes(offsets[4] - 2 - offsets[3])

    status, pixels = decode_with(bytes(damaged), offsets, (60, 20, 20, 40))
    assert status == 0
    np.testing.assert_array_equal(pixels, whole[60:80, 20:60])

    status, _ = ours(bytes(damaged), (HEIGHT, WIDTH), (60, 20, 20, 40))
    assert status == 0
    status, _ = decode_with(bytes(damaged), offsets, (20, 0, 20, WIDTH))
    assert status != 0


@pytest.mark.parametrize("change", [-1, 1, -(10**9), 10**9])
def test_wrong_offsets_are_refused(change: int) -> None:
    """Offsets of another file are noticed: no restart marker stands there, or no byte at all."""
    data = encode(picture(HEIGHT, WIDTH), "4:4:4", restart=5)

    status, _ = decode_with(data, offsets_of(data) + change, (60, 20, 20, 40))

    assert REASONS[status] == "damaged: a restart marker is missing"


def test_missing_offsets_are_refused() -> None:
    """Fewer offsets than intervals cannot be right."""
    data = encode(picture(HEIGHT, WIDTH), "4:4:4", restart=5)

    status, _ = decode_with(data, offsets_of(data)[:3], (60, 20, 20, 40))

    assert REASONS[status] == "damaged: a restart marker is missing"


def test_swapped_intervals_are_refused() -> None:
    """Restart markers must count in order."""
    data = encode(picture(HEIGHT, WIDTH), "4:2:0", restart=2)
    swapped = data.replace(b"\xff\xd1", b"\xff\xd2", 1)

    status, _ = ours(swapped, (HEIGHT, WIDTH))

    assert REASONS[status] == "damaged: a restart marker is missing"
