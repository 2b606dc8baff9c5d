"""Damaged files, and checkpoints of whatever origin: a status or the right pixels, and no byte beside the memory."""

import logging
from collections import Counter

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from dali_pipes.jpeg import REASONS
from dali_pipes.jpeg.checkpoints import CHECKPOINT, find_checkpoints
from dali_pipes.jpeg.decode import decode_crop, scratch_bytes
from tests.dali_pipes.jpeg.test_progressive_damage import (
    IN_CODES,
    _expected,
    _places_of_codes,
    damage,
)
from tests.support.guarded import Guarded
from tests.support.jpegs import NO_OFFSETS, SAMPLINGS, Crop, draw_crop, encode, picture, turned

pytestmark = pytest.mark.skipif(
    int(cv2.__version__.split(".")[0]) < 5, reason="OpenCV 4 returns damaged files half gray"
)

_log = logging.getLogger(__name__)

SIDE = 64
MOST_ROWS = 400


class Machine:
    """Decodes with every piece of memory between guard pages."""

    def __init__(self) -> None:
        self._file, self._out = Guarded(1 << 16), Guarded(SIDE * SIDE * 3)
        self._rows = Guarded(MOST_ROWS * 10)
        self._scratch = [Guarded(scratch_bytes(SIDE)) for _ in range(2)]  # each keeps its tables
        self.at_end = False

    def room(self, count: int) -> NDArray[np.void]:
        """CHECKPOINT [count]."""
        return self._rows.array(10 * count, at_end=self.at_end).view(CHECKPOINT)

    def decode(
        self,
        data: bytes,
        size: tuple[int, int],
        crop: Crop,
        rows: NDArray[np.void],
        every: int,
        *,
        judge: bool,
    ) -> tuple[int, NDArray[np.uint8]]:
        """The status and the pixels of a crop; rows are of `room`."""
        file = self._file.hold(data, at_end=self.at_end)
        out = self._out.array(crop[2] * crop[3] * 3, at_end=self.at_end).reshape(*crop[2:], 3)
        num_bytes = scratch_bytes(SIDE) // 8 * 8
        scratch = self._scratch[self.at_end].array(num_bytes, at_end=self.at_end)
        known = (rows.__array_interface__["data"][0], len(rows), every)
        status = decode_crop(
            *(file.ctypes.data, file.size, crop, size, 1, NO_OFFSETS, known, judge),
            *(out.ctypes.data, out.strides[0], scratch),
        )
        return status, out


def spoil(rows: NDArray[np.void], num_bits: int, rng: np.random.Generator) -> NDArray[np.void]:
    """Rows that are wrong in one way: places, predictors, their order, or all bytes."""
    rows = rows.copy()
    if not len(rows):
        return rows
    way, at = int(rng.integers(7)), int(rng.integers(len(rows)))
    if way == 0:
        rows["bit"][at:] = rng.integers(0, 2**32, len(rows) - at)
    elif way == 1:  # near the end of the file
        rows["bit"] = np.maximum(num_bits + rng.integers(-100, 20, len(rows)), 0)
    elif way == 2:
        rows["bit"][at] += int(rng.integers(1, 9))
    elif way == 3:
        rows["dc"] = rng.integers(-(2**15), 2**15, (len(rows), 3))
    elif way == 4:
        rows = rows[::-1].copy()
    elif way == 5:
        rows["bit"] = rows["bit"][at]
    else:
        rows = rng.integers(0, 256, 10 * len(rows)).astype(np.uint8).view(CHECKPOINT)
    return rows


def sound_files() -> list[tuple[bytes, tuple[int, int]]]:
    """All samplings and turns, with restart markers and without."""
    files = []
    for trial, sampling in enumerate([*SAMPLINGS, "gray"] * 3):
        data = encode(picture(33, 47, trial), sampling, quality=30 + 4 * trial, restart=trial % 3)
        turn = 1 + trial % 8
        files.append((turned(data, turn), (33, 47) if turn < 5 else (47, 33)))
    return files


@pytest.mark.parametrize("count", [400, pytest.param(100_000, marks=pytest.mark.long)])
def test_damaged_files_and_wrong_checkpoints(count: int) -> None:
    """What is decoded is what OpenCV decodes, from checkpoints as well; wrong ones give a status or wrong pixels."""
    rng, machine = np.random.default_rng(count), Machine()
    sound = sound_files()
    codes = [_places_of_codes(data) for data, _ in sound]
    found: Counter[str] = Counter()
    spoiled: Counter[str] = Counter()
    for trial in range(count):
        data, size = sound[trial % len(sound)]
        if trial % 8:
            data = damage(data, codes[trial % len(sound)], rng)
        machine.at_end, every = bool(trial & 1), int(rng.integers(1, 9))
        expected, rows = find_checkpoints(data, every)

        crop = draw_crop(rng, *size)
        room = machine.room(min(len(rows), MOST_ROWS) if expected == 0 else MOST_ROWS)
        status, pixels = machine.decode(data, size, crop, room, every, judge=True)
        assert REASONS[status] in (REASONS[expected], "another size than expected")
        found[REASONS[status]] += 1
        if status != 0:
            continue
        whole = _expected(data, size)
        assert_cut(pixels, whole, crop)
        assert (room == rows).all()

        crop = draw_crop(rng, *size)
        status, pixels = machine.decode(data, size, crop, room, every, judge=False)
        assert status == 0
        assert_cut(pixels, whole, crop)

        wrong = spoil(rows, 8 * len(data), rng)[: int(rng.integers(len(rows) + 1))]
        room = machine.room(len(wrong))
        room[:] = wrong
        wrong_every = every if rng.random() < 0.7 else int(rng.integers(-2, 12))
        status, _ = machine.decode(data, size, crop, room, wrong_every, judge=False)
        spoiled[REASONS[status]] += 1
    in_codes = sum(number for reason, number in found.items() if reason in IN_CODES)
    assert in_codes > count / 2, found
    assert found["decoded"] > count / 8, found
    assert len(spoiled) > 2, spoiled
    _log.info("%s; wrong checkpoints: %s", dict(found), dict(spoiled))


def assert_cut(pixels: NDArray[np.uint8], whole: NDArray[np.uint8], crop: Crop) -> None:
    """These are the pixels of a crop."""
    top, left, height, width = crop
    np.testing.assert_array_equal(pixels, whole[top : top + height, left : left + width])
