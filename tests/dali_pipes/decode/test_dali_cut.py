"""Crops that are cut out of JPEGs with restart markers decode to the pixels of the whole."""

import ctypes
import mmap
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from dali_pipes.decode.dali.cut import cut_many
from readers import restart_offsets
from readers.sample import Payload
from tests.support.jpeg_kinds import (
    KINDS,
    by_pillow,
    encode,
    interval,
    picture,
)
from tests.support.jpegs import Crop, cut_of, opencv


class Cut(NamedTuple):
    """One of `Cuts`."""

    data: Payload
    origin: tuple[int, int]
    size: tuple[int, int]
    whole: bool


def cut(data: Payload, crop: Crop, restarts: NDArray[np.int64] | None) -> Cut:
    """Cut a crop out of one file."""
    cuts = cut_many([data], np.array([crop], np.int32), [restarts])
    (top, left), (height, width) = cuts.origins[0].tolist(), cuts.sizes[0].tolist()
    return Cut(cuts.data[0], (top, left), (height, width), bool(cuts.whole[0]))


def with_markers(
    size: tuple[int, int], kind: str = "4:2:0", seed: int = 0, orientation: int = 1
) -> bytes:
    """A picture whose restart intervals are a grid."""
    every = interval(kind, size[1])
    return encode(picture(*size, seed), kind, restart=every, orientation=orientation)


def draw_crops(rng: np.random.Generator, size: tuple[int, ...], count: int) -> list[Crop]:
    """Crops inside a picture, small ones more often than large ones."""
    start = rng.integers(0, size, (count, 2))
    extent = 1 + (rng.random((count, 2)) ** 2 * (np.array(size) - start)).astype(int)
    crops = np.hstack([start, np.minimum(extent, size - start)])
    return [tuple(crop) for crop in crops.tolist()]


def shown(decoded: NDArray[np.uint8], part: Cut, crop: Crop) -> NDArray[np.uint8]:
    """The crop's pixels out of a decoded cut."""
    assert decoded.shape[:2] == part.size
    top, left = crop[0] - part.origin[0], crop[1] - part.origin[1]
    assert min(top, left) >= 0
    return cut_of(decoded, (top, left, *crop[2:]))


@pytest.mark.parametrize("kind", KINDS)
def test_crops_are_exact(kind: str) -> None:
    """Random crops of odd sizes equal the same crops of the whole, in OpenCV and Pillow."""
    rng = np.random.default_rng(7)
    num_cuts = 0
    for seed, size in enumerate([(97, 131), (161, 250), (40, 323)]):
        marked = with_markers(size, kind, seed)
        restarts = restart_offsets(marked)
        for crop in draw_crops(rng, size, 12):
            part = cut(marked, crop, restarts)
            if part.whole:
                continue
            num_cuts += 1
            assert len(part.data) < 0.9 * len(marked)
            for decode in (opencv, by_pillow):
                expected = cut_of(decode(marked), crop)
                assert np.array_equal(shown(decode(part.data), part, crop), expected)
    assert num_cuts > 25


def test_the_margin_is_needed() -> None:
    """A cut that begins exactly at a crop's edge shows other chroma there."""
    size = (160, 256)
    marked = with_markers(size)
    restarts = restart_offsets(marked)
    full = opencv(marked)

    part = cut(
        marked, (40, 130, 20, 20), restarts
    )  # begins at row 32 and column 128, since intervals are 64 wide
    edge: Crop = (part.origin[0], part.origin[1], 20, 20)

    assert part.origin[0] == 32
    assert not np.array_equal(shown(opencv(part.data), part, edge), cut_of(full, edge))
    larger = cut(marked, edge, restarts)
    assert larger.origin[0] < part.origin[0]
    assert np.array_equal(shown(opencv(larger.data), larger, edge), cut_of(full, edge))


@pytest.mark.parametrize("width", range(257, 266))
def test_narrow_last_intervals_are_exact(width: int) -> None:
    """Chroma of one or two columns is upsampled in another way, so such an interval is not cut alone."""
    noise = np.random.default_rng(width).integers(0, 256, (96, width, 3), dtype=np.uint8)
    marked = encode(noise, "4:2:2", quality=95, restart=1)
    crop = (20, width - 1, 30, 1)

    part = cut(marked, crop, restart_offsets(marked))

    assert part.size[1] < 32
    assert np.array_equal(shown(opencv(part.data), part, crop), cut_of(opencv(marked), crop))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_upright_crops(orientation: int) -> None:
    """Crops of a turned picture: the cut is turned like the whole, and counts in the same pixels."""
    rng = np.random.default_rng(orientation)
    marked = with_markers((97, 187), orientation=orientation)
    restarts, full = restart_offsets(marked), opencv(marked)
    smallest = full.shape[:2]
    for crop in draw_crops(rng, full.shape[:2], 16):
        part = cut(marked, crop, restarts)
        if not part.whole:
            smallest = min(smallest[0], part.size[0]), min(smallest[1], part.size[1])
            assert np.array_equal(shown(opencv(part.data), part, crop), cut_of(full, crop))
    assert max(smallest) < 97  # some were cut at all four sides


def test_whole_files() -> None:
    """A file without markers, or whose crop is nearly all of it, is returned as it is."""
    data, marked = encode(picture(97, 187), "4:2:0"), with_markers((97, 187))

    cuts = cut_many(
        [data, marked, marked, b"text"],
        np.array([(0, 0, 9, 9), (0, 0, 97, 187), (0, 0, 9, 9), (0, 0, 9, 9)], np.int32),
        [None, restart_offsets(marked), restart_offsets(marked), np.zeros(0, np.int64)],
    )

    assert cuts.whole.tolist() == [True, True, False, True]
    assert cuts.data[0] is data
    assert cuts.data[1] is marked
    assert cuts.sizes.tolist()[2][0] == 16
    assert cuts.origins.dtype == np.int32


@pytest.mark.parametrize("crop", [(0, 0, 98, 5), (-1, 0, 5, 5), (0, 184, 5, 5), (3, 3, 0, 5)])
def test_crops_outside_are_refused(crop: Crop) -> None:
    """A crop that is empty or leaves the picture is an error that says so."""
    marked = with_markers((97, 187))

    with pytest.raises(ValueError, match=r"inside the picture .* \(97, 187\), got .*; clip it"):
        cut(marked, crop, restart_offsets(marked))


def test_offsets_of_another_file_do_no_harm() -> None:
    """Offsets that do not belong to a file give the file as it is, or the right cut."""
    rng = np.random.default_rng(3)
    marked = with_markers((97, 187))
    restarts, crop = restart_offsets(marked), (30, 60, 20, 20)
    right = bytes(cut(marked, crop, restarts).data)
    for _ in range(300):
        wrong = restarts.copy()
        wrong[rng.integers(wrong.size)] = rng.choice([-(1 << 50), -1, 0, 700, len(marked), 1 << 50])
        part = cut(marked, crop, wrong)
        assert part.whole or bytes(part.data) == right
    assert cut(marked, crop, restarts + 1).whole
    assert cut(marked, crop, restarts[:-1]).whole


def cut_anyhow(data: bytes, crop: Crop, restarts: NDArray[np.int64] | None) -> bytes | str:
    """The bytes of a cut, or why there is none."""
    try:
        return bytes(cut(data, crop, restarts).data)
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("kind", KINDS)
def test_offsets_are_found(kind: str) -> None:
    """Without offsets a cut is the one with those that `restart_offsets` finds, also where it finds none."""
    for size in [(97, 131), (161, 250), (40, 323)]:
        data = encode(picture(*size), kind)
        for file in (data, with_markers(size, kind)):
            for crop in draw_crops(np.random.default_rng(2), size, 8):
                assert bytes(cut(file, crop, None).data) == cut_anyhow(
                    file, crop, restart_offsets(file)
                )


def test_offsets_of_damaged_files() -> None:
    """So it is where a file is damaged, cut short, or has markers too many or others, anywhere."""
    rng = np.random.default_rng(11)
    marked = with_markers((97, 187))
    found = restart_offsets(marked)
    assert found is not None
    markers = found[1:-1] - 2
    crop, num_cuts = (30, 60, 20, 20), 0
    for number in range(600):
        data = bytearray(marked)
        at = int(rng.integers(len(marked) - 1) if number % 2 else rng.choice(markers))
        data[at : at + 2] = (
            rng.choice([0xFFD0, 0xFFFF, 0xFFD9, 0xFF00, 0x6162]).astype(">u2").tobytes()
        )
        del data[int(rng.choice([at + 2, len(marked)])) :]
        data += bytes(int(rng.integers(70)))
        damaged = bytes(data)
        restarts = restart_offsets(damaged)
        expected = damaged if restarts is None else cut_anyhow(damaged, crop, restarts)
        assert cut_anyhow(damaged, crop, None) == expected
        num_cuts += expected != damaged
    assert 20 < num_cuts < 580


def test_nothing_behind_a_file_is_read() -> None:
    """Files end where memory does."""
    page, none = mmap.PAGESIZE, 0
    marked = with_markers((97, 187))
    room = -(-len(marked) // page) * page
    memory = mmap.mmap(-1, room + page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + room), page, none) == 0
    for length in (*range(len(marked) - 70, len(marked) + 1), *range(2, 100)):
        memory[room - length : room] = marked[:length]
        data = memoryview(memory)[room - length : room]
        whole = cut(data, (30, 60, 20, 20), None).whole
        assert whole == (length < len(marked))
