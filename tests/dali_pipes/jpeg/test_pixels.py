"""Our JPEG decoder against OpenCV's and Pillow's libjpeg-turbo, whole files and crops: the same pixels, bit for bit."""

import re
from pathlib import Path

import numpy as np
import pytest

from dali_pipes.jpeg import REASONS
from dali_pipes.jpeg.huffman_tables import END
from dali_pipes.jpeg.memory import _MEMORY
from dali_pipes.jpeg.status import BAD_NUMBER
from tests.support.jpegs import (
    REDUCED,
    SAMPLINGS,
    assert_decodes,
    check_all_sizes,
    cut_of,
    decode,
    draw_crop,
    encode,
    opencv,
    ours,
    picture,
    reason_of,
    turned,
    used_scratch,
    with_code_of_ones,
)


@pytest.mark.parametrize("sampling", [*SAMPLINGS, "gray"])
def test_all_sizes_equal_opencv_and_pillow(sampling: str) -> None:
    """Odd and tiny sizes, qualities from worst to best, restarts and optimised tables."""
    check_all_sizes(sampling, 60, progressive=False, judge=False)


def test_photographs_equal_opencv(photos: list[Path]) -> None:
    """Whole photographs, a part of them progressive."""
    for path in photos:
        data = path.read_bytes()
        image = opencv(data)
        assert_decodes(image, data, (image.shape[0], image.shape[1]))


@pytest.mark.parametrize(
    ("restart", "progressive", "judge"),
    [(0, False, False), (1, False, False), (7, False, False), (0, True, False), (2, True, True)],
)
@pytest.mark.parametrize("sampling", [*SAMPLINGS, "gray"])
def test_crops_equal_cuts(sampling: str, restart: int, progressive: bool, judge: bool) -> None:
    """Any crop, with and without restart markers to jump over, and whether the rest of the file is read or not."""
    rng = np.random.default_rng(restart)
    for trial in range(8):
        height, width = (int(side) for side in rng.integers(1, 150, 2))
        image = picture(height, width, trial)
        data = encode(image, sampling, restart=restart, progressive=progressive)
        whole = opencv(data)
        for _ in range(12):
            crop = draw_crop(rng, height, width)

            assert_decodes(cut_of(whole, crop), data, (height, width), crop, judge=judge)


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_crops_are_upright(orientation: int, progressive: bool) -> None:
    """The crop is one of the picture as EXIF turns it."""
    rng = np.random.default_rng(orientation)
    for sampling in SAMPLINGS:
        data = turned(encode(picture(45, 61), sampling, progressive=progressive), orientation)
        whole = opencv(data)
        size = whole.shape[0], whole.shape[1]
        assert size == ((61, 45) if orientation >= 5 else (45, 61))
        for _ in range(8):
            crop = draw_crop(rng, *size)

            assert_decodes(cut_of(whole, crop), data, size, crop)


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("shrink", [2, 4, 8])
@pytest.mark.parametrize("sampling", [*SAMPLINGS, "gray"])
def test_shrunk_crops_equal_cuts_of_reduced_pictures(
    sampling: str, shrink: int, progressive: bool
) -> None:
    """Decoding at 1/2, 1/4 and 1/8 is OpenCV's, and libjpeg's, reduced decoding."""
    rng = np.random.default_rng(shrink)
    for trial in range(9):
        height, width = (int(side) for side in rng.integers(1, 150, 2))
        data = encode(picture(height, width, trial), sampling, progressive=progressive)
        whole = opencv(data, REDUCED[shrink])
        for crop in ((0, 0, height, width), draw_crop(rng, height, width)):
            top, left, rows, columns = crop
            rows, columns = -(-rows // shrink), -(-columns // shrink)
            cut = cut_of(whole, (top // shrink, left // shrink, rows, columns))
            assert_decodes(cut, data, (height, width), crop, shrink)


@pytest.mark.parametrize("crop", [(-1, 0, 5, 5), (0, -1, 5, 5), (30, 0, 11, 5), (0, 45, 5, 6)])
def test_crops_outside_are_refused(crop: tuple[int, int, int, int]) -> None:
    """A crop that does not lie in the picture gets a status."""
    data = encode(picture(40, 50), "4:2:0")

    assert reason_of(data, (40, 50), crop) == "the crop lies outside the image"


def test_another_size_is_refused() -> None:
    """The size that was promised must be the one in the header."""
    assert reason_of(encode(picture(40, 50), "4:2:0"), (50, 40)) == "another size than expected"


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

        status, pixels = decode_with(data, offsets, crop)

        assert REASONS[status] == "decoded"
        np.testing.assert_array_equal(pixels, cut_of(whole, crop))


def test_what_is_jumped_over_is_not_read() -> None:
    """Damage in intervals above the crop does no harm; inside it, the file is refused."""
    data = encode(picture(HEIGHT, WIDTH), "4:4:4", restart=17)  # an interval is a row of MCUs
    offsets, whole = offsets_of(data), opencv(data)
    damaged = bytearray(data)
    damaged[offsets[3] : offsets[4] - 2] = bytes(offsets[4] - 2 - offsets[3])

    status, pixels = decode_with(bytes(damaged), offsets, (60, 20, 20, 40))
    assert status == 0
    np.testing.assert_array_equal(pixels, whole[60:80, 20:60])

    assert reason_of(bytes(damaged), (HEIGHT, WIDTH), (60, 20, 20, 40)) == "decoded"
    status, _ = decode_with(bytes(damaged), offsets, (20, 0, 20, WIDTH))
    assert status != 0


@pytest.mark.parametrize("change", [-1, 1, -(10**9), 10**9, "missing"])
def test_wrong_offsets_are_refused(change: int | str) -> None:
    """Offsets of another file, where no restart marker stands or no byte at all, and fewer than there are intervals."""
    data = encode(picture(HEIGHT, WIDTH), "4:4:4", restart=5)
    offsets = offsets_of(data)[:3] if change == "missing" else offsets_of(data) + change

    status, _ = decode_with(data, offsets, (60, 20, 20, 40))

    assert REASONS[status] == "damaged: a restart marker is missing"


def test_swapped_intervals_are_refused() -> None:
    """Restart markers must count in order."""
    data = encode(picture(HEIGHT, WIDTH), "4:2:0", restart=2)
    swapped = data.replace(b"\xff\xd1", b"\xff\xd2", 1)

    assert reason_of(swapped, (HEIGHT, WIDTH)) == "damaged: a restart marker is missing"


SIZE = (48, 64)


ENDS = END << 16 | END << 8 | 1  # a block ends with the next bit


def kept(trial: int) -> bytes:
    """Files that share tables with others, or differ in one kind of them."""
    sampling = [*SAMPLINGS, "gray"][trial % 6]
    quality = [40, 85, 97, 100][trial // 2 % 4]
    return encode(picture(*SIZE, trial), sampling, quality=quality, optimise=trial % 5 == 0)


def test_one_memory_for_many_files() -> None:
    """Crops that are read, and passed, out of files of several qualities and Huffman tables, refused ones in between."""
    rng, scratch = np.random.default_rng(0), used_scratch(max(SIZE))
    for trial in range(150):
        data = kept(int(rng.integers(40)))
        if trial % 4 == 3:
            refused = with_code_of_ones(encode(picture(*SIZE), "4:2:0"))
            assert ours(refused, SIZE, scratch=scratch)[0] != 0
        crop = draw_crop(rng, *SIZE)

        assert_decodes(
            cut_of(opencv(data), crop), data, SIZE, crop, judge=trial % 2 == 0, scratch=scratch
        )


def test_numbers_out_of_range_are_found_whatever_came_before() -> None:
    """Quantisation steps decide what is out of range, in files whose Huffman tables are the same."""
    scratch = used_scratch(max(SIZE))
    sound = encode(picture(*SIZE), "4:2:0", quality=96)
    first_ac = sound.index(b"\xff\xdb") + 6
    wide = sound[:first_ac] + bytes([255]) + sound[first_ac + 1 :]
    seen = []
    for data in (sound, wide, sound, wide):
        for judge in (True, False):
            alone, _ = ours(data, SIZE, (0, 0, 8, 8), judge=judge)
            status, _ = ours(data, SIZE, (0, 0, 8, 8), judge=judge, scratch=scratch)
            assert status == alone
            seen.append(status)
    assert len(set(seen)) > 1


def test_what_is_passed_over_is_judged_by_the_steps_of_its_own_file() -> None:
    """Large numbers with short codes, in blocks that are only passed; the file before has small steps."""
    scratch = used_scratch(max(SIZE))
    wave = 128 + 18 * np.cos(
        (2 * np.arange(SIZE[1]) + 1) * np.pi / 16
    )  # 102 in each block's second coefficient
    pixels = np.broadcast_to(np.rint(wave).astype(np.uint8)[None, :, None], (*SIZE, 3)).copy()
    pixels[:16, :16] = 128
    sound = encode(pixels, "gray", quality=100, optimise=True)
    first_ac = sound.index(b"\xff\xdb") + 6
    wide = sound[:first_ac] + bytes([255]) + sound[first_ac + 1 :]

    found = [
        REASONS[ours(data, SIZE, (0, 0, 8, 8), judge=True, scratch=scratch)[0]]
        for data in (sound, wide)
    ]

    assert found == ["decoded", REASONS[BAD_NUMBER]]


def test_equal_tables_are_made_once() -> None:
    """What a second file with the same tables finds in them is taken as it is."""
    scratch = used_scratch(max(SIZE))
    ours(encode(picture(*SIZE), "4:2:0"), SIZE, scratch=scratch)
    memory = scratch[: _MEMORY.itemsize].view(_MEMORY)
    assert memory["tables"]["is_ready"][0].tolist() == [1, 1, 0, 0, 1, 1, 0, 0]

    memory["tables"]["pairs"] = ENDS
    assert ours(encode(picture(*SIZE), "4:2:0", optimise=True), SIZE, scratch=scratch)[0] == 0
    memory["tables"]["pairs"] = ENDS
    assert ours(encode(picture(*SIZE), "4:2:0", optimise=True), SIZE, scratch=scratch)[0] != 0
