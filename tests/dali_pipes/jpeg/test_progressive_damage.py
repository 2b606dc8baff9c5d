"""JPEGs of several scans that are damaged or unfinished: a status, never wrong pixels, whatever the crop is."""

import logging
from collections import Counter

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from dali_pipes import DecodeError
from dali_pipes.decode import opencv
from dali_pipes.jpeg import REASONS
from dali_pipes.jpeg.decode import decode_crop, scratch_bytes
from dali_pipes.jpeg.seek_points import SEEK_POINT, find_seek_points
from readers import HeaderError, read_header
from tests.support.guarded import Guarded
from tests.support.jpegs import (
    NO_OFFSETS,
    SAMPLINGS,
    WAYS,
    Crop,
    assert_decodes,
    cut_of,
    damage,
    draw_crop,
    encode,
    ours,
    picture,
    reason_of,
    turned,
)
from tests.support.scan_scripts import Script, draw_parts, draw_scripts, write_scans

pytestmark = pytest.mark.skipif(
    cv2.__version__.startswith("4.10."), reason="OpenCV 4.10 returns damaged files half gray"
)

GRAY = [(1, 1)]
IN_CODES = {
    "decoded",
    "damaged: a code that no table has",
    "damaged: the scan ends too early",
    "damaged: the scan ends too late",
    "damaged: a restart marker is missing",
    "damaged: coefficients out of range",
}


def gray(scripts: list[Script], *, progressive: bool = True) -> bytes:
    """A small picture with a script of scans."""
    parts = draw_parts(np.random.default_rng(1), (30, 30), GRAY, 40)
    return write_scans((30, 30), parts, scripts, progressive=progressive)


DC, AC = Script((0,), 0, 0), Script((0,), 1, 63)


def test_a_plain_script_is_decoded() -> None:
    """What the following tests leave out, or put elsewhere, is what matters."""
    assert ours(gray([DC, AC]), (30, 30), judge=True)[0] == 0


@pytest.mark.parametrize(
    ("scripts", "reason"),
    [
        ([DC], "scans are missing"),
        ([DC, Script((0,), 1, 8)], "scans are missing"),
        ([DC, Script((0,), 1, 63, 0, 1)], "scans are missing"),
        ([Script((0,), 0, 0, 0, 1), AC], "scans are missing"),
        ([AC, DC], "scans that are malformed, or do not follow from one another"),
        ([DC, AC, AC], "scans that are malformed, or do not follow from one another"),
        ([DC, DC, AC], "scans that are malformed, or do not follow from one another"),
        (
            [DC, Script((0,), 1, 63, 0, 2), Script((0,), 1, 63, 1, 0)],
            "scans that are malformed, or do not follow from one another",
        ),
        (
            [DC, Script((0,), 1, 63, 0, 2), Script((0,), 1, 63, 2, 0)],
            "scans that are malformed, or do not follow from one another",
        ),
        ([Script((0,), 0, 5)], "scans that are malformed, or do not follow from one another"),
        (
            [DC, *(Script((0,), at, at) for at in range(1, 40)), Script((0,), 40, 63)],
            "more scans than there is memory for",
        ),
    ],
)
def test_scripts_that_are_refused(scripts: list[Script], reason: str) -> None:
    """Scans that are missing, come twice, in another order or in too many parts."""
    assert reason_of(gray(scripts), (30, 30), judge=True) == reason


def test_what_high_frequencies_lack_is_decoded() -> None:
    """Nothing is made up by libjpeg for what is missing behind the first ten coefficients."""
    data = gray([DC, Script((0,), 1, 20)])

    assert_decodes(opencv.decode(data, (30, 30)), data, (30, 30), judge=True)


def test_a_component_that_is_missing_is_refused() -> None:
    """Also in a sequential file."""
    parts = draw_parts(np.random.default_rng(1), (30, 30), [(1, 1)] * 3, 40)
    scripts = [Script((0,)), Script((1,))]
    data = write_scans((30, 30), parts, scripts, progressive=False)

    assert reason_of(data, (30, 30), judge=True) == "scans are missing"


def test_what_follows_the_last_block_of_a_scan_is_noticed() -> None:
    """A restart marker that nobody needs, and a run of empty blocks that is longer than the picture."""
    [part] = draw_parts(np.random.default_rng(1), (30, 30), GRAY, 40)
    part.blocks[..., 1:] = 0
    sound = write_scans((30, 30), [part], [DC, AC], progressive=True)
    assert sound[-3] == 0b00000111  # a code of one bit, 16 blocks, and bits that fill the byte
    assert ours(sound, (30, 30), judge=True)[0] == 0
    for data in (sound[:-2] + b"\xff\xd0" + sound[-2:], sound[:-3] + b"\x0f" + sound[-2:]):
        assert reason_of(data, (30, 30), judge=True) == "damaged: the scan ends too late"


def test_the_verdict_is_one_of_the_whole_file() -> None:
    """Damage at the end of a scan is found whatever the crop is, and not looked for where the file is known."""
    sound = encode(picture(160, 40), "4:2:0", progressive=True)
    for at in (len(sound) - 8, sound.index(b"\xff\xc4", 700) - 3):
        data = sound[: at - 3] + sound[at:]
        statuses = {
            ours(data, (160, 40), (top, 0, 16, 40), judge=True)[0] for top in range(0, 144, 16)
        }
        assert 0 not in statuses
        assert len(statuses) == 1
        assert ours(data, (160, 40), (0, 0, 16, 40), judge=False)[0] == 0


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("coefficient", [0, 1, 28])
def test_numbers_out_of_range_are_refused(progressive: bool, coefficient: int) -> None:
    """Wherever the block lies: libjpeg's 16-bit sums wrap as the processor likes."""
    [part] = draw_parts(np.random.default_rng(1), (30, 30), GRAY, 40)
    scripts = [DC, AC] if progressive else [Script((0,)), Script((1, 2))]
    parts = [part] if progressive else [part, part, part]
    part.blocks[3, 3] = 0
    last = 8191 // (coefficient + 1)
    for number, reason in ((last, "decoded"), (last + 1, "damaged: coefficients out of range")):
        part.blocks[3, 3, coefficient] = number
        data = write_scans((30, 30), parts, scripts, progressive=progressive)
        for crop in ((0, 0, 5, 5), (0, 0, 30, 30), (29, 29, 1, 1)):
            assert reason_of(data, (30, 30), crop, judge=True) == reason
        assert REASONS[find_seek_points(data, 8)[0]] == reason


def test_a_table_of_another_scan_does_not_serve() -> None:
    """A scan without its own table, of which no scan before had one, is refused."""
    data = gray([DC, AC])
    table = data.index(b"\xff\xc4", data.index(b"\xff\xc4") + 2)
    end = data.index(b"\xff\xda", table)

    status, _ = ours(data[:table] + data[end:], (30, 30), judge=True)

    assert "Huffman" in REASONS[status]


@pytest.mark.parametrize("count", [600, pytest.param(100_000, marks=pytest.mark.long)])
def test_damaged_files_decode_as_opencv_decodes_them_or_not_at_all(count: int) -> None:
    """Bits flipped, bytes overwritten, lost and added; no byte beside the file, the pixels or the memory is touched."""
    sound = [*_usual(progressive=True), *_unusual()]
    machine = Machine()
    codes = [_places_of_codes(data) for data, _ in sound]
    found: Counter[str] = Counter()
    rng = np.random.default_rng(count)
    for trial in range(count):
        data, size = sound[trial % len(sound)]
        data = damage_codes(data, codes[trial % len(sound)], rng)
        machine.at_end = bool(trial & 1)
        status, pixels = machine.decode(data, size, (0, 0, *size), machine.room(0), 0, judge=True)
        found[REASONS[status]] += 1
        crop = draw_crop(rng, *size)
        assert ours(data, size, crop, judge=True)[0] == status
        if status == 0:
            np.testing.assert_array_equal(pixels, _expected(data, size))
    in_codes = sum(number for reason, number in found.items() if reason in IN_CODES)
    assert in_codes > count / 2, found
    assert found["decoded"] > count / 100


def _usual(*, progressive: bool) -> list[tuple[bytes, tuple[int, int]]]:
    """All samplings and turns, with restart markers and without."""
    files = []
    for trial, sampling in enumerate([*SAMPLINGS, "gray"] * 3):
        data = encode(
            picture(33, 47, trial),
            sampling,
            quality=30 + 4 * trial,
            restart=trial % 3,
            progressive=progressive,
        )
        turn = 1 + trial % 8
        files.append((turned(data, turn), (33, 47) if turn < 5 else (47, 33)))
    return files


def _unusual() -> list[tuple[bytes, tuple[int, int]]]:
    files = []
    for trial in range(12):
        rng = np.random.default_rng(trial)
        parts = draw_parts(rng, (29, 50), [(2, 2), (1, 1), (1, 1)] if trial % 2 else GRAY, 40)
        scripts = draw_scripts(rng, len(parts))
        if trial % 3 == 0:
            scripts = [Script((part,), restart=part) for part in range(len(parts))]
        data = write_scans(
            (29, 50), parts, scripts, progressive=trial % 3 > 0, long_codes=trial % 4 > 1
        )
        files.append((data, (29, 50)))
    return files


def _places_of_codes(data: bytes) -> list[int]:
    """Where the bytes of scans lie."""
    at, places = 2, list[int]()
    while data[at + 1] != 0xD9:
        is_scan = data[at + 1] == 0xDA
        at += 2 + int.from_bytes(data[at + 2 : at + 4])
        while is_scan and (data[at] != 0xFF or data[at + 1] in (0, *range(0xD0, 0xD8))):
            places.append(at)
            at += 1
    return places


def damage_codes(data: bytes, codes: list[int], rng: np.random.Generator) -> bytes:
    """Damage a file in one or two places, mostly in its codes."""
    for _ in range(int(rng.integers(1, 3))):
        at = int(rng.choice(codes[:-8])) if rng.random() < 0.7 else None
        data = damage(data, WAYS[int(rng.integers(4))], rng, at)
    return data


def _expected(data: bytes, size: tuple[int, int]) -> np.ndarray:
    """What OpenCV makes of a file that we decode."""
    try:
        header = read_header(data)
        assert (header.height, header.width) == size
        return opencv.decode(data, size)
    except (HeaderError, DecodeError) as error:
        raise AssertionError("OpenCV refuses it") from error


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
        """SEEK_POINT [count]."""
        return self._rows.array(10 * count, at_end=self.at_end).view(SEEK_POINT)

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
        rows = rng.integers(0, 256, 10 * len(rows)).astype(np.uint8).view(SEEK_POINT)
    return rows


@pytest.mark.parametrize("count", [400, pytest.param(100_000, marks=pytest.mark.long)])
def test_damaged_files_and_wrong_seek_points(count: int) -> None:
    """What is decoded is what OpenCV decodes, from seek points as well; wrong ones give a status or wrong pixels."""
    rng, machine = np.random.default_rng(count), Machine()
    sound = _usual(progressive=False)
    codes = [_places_of_codes(data) for data, _ in sound]
    found: Counter[str] = Counter()
    spoiled: Counter[str] = Counter()
    for trial in range(count):
        data, size = sound[trial % len(sound)]
        if trial % 8:
            data = damage_codes(data, codes[trial % len(sound)], rng)
        machine.at_end, every = bool(trial & 1), int(rng.integers(1, 9))
        expected, rows = find_seek_points(data, every)

        crop = draw_crop(rng, *size)
        room = machine.room(min(len(rows), MOST_ROWS) if expected == 0 else MOST_ROWS)
        status, pixels = machine.decode(data, size, crop, room, every, judge=True)
        assert REASONS[status] in (REASONS[expected], "another size than expected")
        found[REASONS[status]] += 1
        if status != 0:
            continue
        whole = _expected(data, size)
        np.testing.assert_array_equal(pixels, cut_of(whole, crop))
        assert (room == rows).all()

        crop = draw_crop(rng, *size)
        status, pixels = machine.decode(data, size, crop, room, every, judge=False)
        assert status == 0
        np.testing.assert_array_equal(pixels, cut_of(whole, crop))

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
    _log.info("%s; wrong seek points: %s", dict(found), dict(spoiled))
