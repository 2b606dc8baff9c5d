"""What `add_restarts` leaves alone, and why: above all whatever is damaged."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dali_pipes.jpeg.tiling.add_restarts import add_restarts
from dali_pipes.jpeg.tiling.coefficients import read_coefficients
from dali_pipes.jpeg.tiling.segments import Untiled, walk_segments
from tests.support.jpegs import with_code_of_ones
from tests.support.tile_kinds import by_opencv, by_pillow, encode, picture

os.environ.setdefault("OPENCV_LOG_LEVEL", "OFF")


def reason_for(data: bytes) -> str:
    with pytest.raises(Untiled) as caught:
        add_restarts(data)
    assert caught.value.reason in str(caught.value)
    return caught.value.reason


def frame_at(data: bytes) -> int:
    """Offset of the frame's marker."""
    return next(at for at in (data.find(b"\xff\xc0"), data.find(b"\xff\xc2")) if at > 0)


def scan_at(data: bytes) -> int:
    """Offset of the first compressed byte."""
    return next(part.end for part in walk_segments(data) if part.marker == 0xDA)


def stuffed_at(data: bytes) -> int:
    """Offset of the first 0xFF among the compressed bytes that is data."""
    return data.index(b"\xff\0", scan_at(data))


def patched(data: bytes, at: int, *values: int) -> bytes:
    return data[:at] + bytes(values) + data[at + len(values) :]


EDITS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "text": ("not a JPEG", lambda data: b"text" + data),
    "nothing": ("not a JPEG", lambda _: b""),
    "arithmetic": ("arithmetic coding", lambda data: patched(data, frame_at(data) + 1, 0xC9)),
    "lossless": ("lossless", lambda data: patched(data, frame_at(data) + 1, 0xC3)),
    "hierarchical": ("hierarchical", lambda data: patched(data, frame_at(data) + 1, 0xC5)),
    "no frame's marker": ("damaged", lambda data: patched(data, frame_at(data) + 1, 0xC8)),
    "12 bits": ("not 8 bits", lambda data: patched(data, frame_at(data) + 4, 12)),
    "no height": (
        "height only after the scan",
        lambda data: patched(data, frame_at(data) + 5, 0, 0),
    ),
    "too high": ("truncated", lambda data: patched(data, frame_at(data) + 5, 0xFF, 0)),
    "a row more": (
        "damaged",
        lambda data: patched(data, frame_at(data) + 6, data[frame_at(data) + 6] + 16),
    ),
    "a row less": (
        "damaged",
        lambda data: patched(data, frame_at(data) + 6, data[frame_at(data) + 6] - 16),
    ),
    "same names": ("odd components", lambda data: patched(data, frame_at(data) + 13, 1)),
    "3 by 2": ("odd sampling", lambda data: patched(data, frame_at(data) + 11, 0x32, 1, 2, 0x21)),
    "no table": ("odd tables", lambda data: patched(data, frame_at(data) + 12, 3)),
    "cut in the header": ("truncated", lambda data: data[: frame_at(data) + 6]),
    "cut in the scan": ("truncated", lambda data: data[: len(data) * 2 // 3]),
    "cut and ended": ("damaged", lambda data: data[: len(data) * 2 // 3] + b"\xff\xd9"),
    "no end marker": ("truncated", lambda data: data[:-2]),
    "stray byte in the header": ("damaged", lambda data: data[:20] + b"\0" + data[20:]),
    "stray byte after the scan": ("damaged", lambda data: data[:-2] + b"\0" + data[-2:]),
    "fill bytes in the data": (
        "damaged",
        lambda data: data[: stuffed_at(data)] + b"\xff" + data[stuffed_at(data) :],
    ),
    "a code of all ones": ("odd tables", with_code_of_ones),
    "stray marker": ("damaged", lambda data: data[:-2] + b"\xff\xd0" + data[-2:]),
    "comment at the end": (
        "metadata after a scan",
        lambda data: data[:-2] + b"\xff\xfe\0\3a" + data[-2:],
    ),
    "two scans": ("odd scans", lambda data: data[:-2] + data[data.find(b"\xff\xda") :]),
}


@pytest.mark.parametrize("name", EDITS)
def test_reasons(name: str) -> None:
    """Each kind of file that is left alone has its reason."""
    expected, edit = EDITS[name]
    data = encode(picture(97, 131), "4:2:0", quality=95)
    add_restarts(data)  # sound before the edit

    assert reason_for(edit(data)) == expected


def test_flat_pictures_have_too_little_data() -> None:
    """Where markers would cost more than 2 % the file stays as it is."""
    assert reason_for(encode(np.full((400, 400, 3), 90, np.uint8), "4:2:0")) == "too little data"


def test_wrongly_numbered_markers_are_damage() -> None:
    """A restart marker that is not the next one, or that is missing, is noticed."""
    data = encode(picture(97, 131), "4:2:0", restart=3)
    at = data.index(b"\xff\xd2", scan_at(data))
    add_restarts(data)

    assert reason_for(patched(data, at + 1, 0xD3)) == "damaged"
    assert reason_for(data[:at] + data[at + 2 :]) == "damaged"


def test_an_unfinished_progressive_file_is_left() -> None:
    """Without its last scans a progressive file is blurred by libjpeg, which baseline would not be."""
    data = encode(picture(97, 131), "4:2:0", progressive=True)
    scans = []
    position = 2
    while True:
        last = list(walk_segments(data, position))[-1]
        if last.marker == 0xD9:
            break
        scans.append(data.rindex(b"\xff\xda", 0, last.end))
        position = last.end
        while not (data[position] == 0xFF and data[position + 1] not in (0, *range(0xD0, 0xD8))):
            position += 1
    unfinished = data[: scans[-1]]
    unfinished = unfinished[: unfinished.rindex(b"\xff\xc4")] + b"\xff\xd9"

    assert not np.array_equal(by_pillow(unfinished), by_pillow(data))
    assert reason_for(unfinished) == "unfinished progressive"


def test_scans_in_the_wrong_order_are_left() -> None:
    """A refinement before what it refines is refused."""
    data = bytearray(encode(picture(97, 131), "4:2:0", progressive=True))
    data[scan_at(bytes(data)) - 1] = 0x10

    assert reason_for(bytes(data)) == "odd scans"


def test_odd_files(shared_data: Path) -> None:
    """Every odd JPEG is tiled with the same pixels or left alone, the damaged ones left alone."""
    expected = {
        "arithmetic": "arithmetic coding",
        "bitrot_huffman": "odd tables",
        "bitrot_scan": "damaged",
        "extraneous_data": "damaged",
        "huge_declared": "truncated",
        "no_end_marker": "truncated",
        "non_interleaved": "too little data",
        "one_pixel": "too little data",
        "qtables_16bit": "too little data",
        "tall_1x1000": "too little data",
        "truncated_half": "truncated",
        "truncated_header": "truncated",
        "truncated_large": "truncated",
        "truncated_progressive": "truncated",
        "zero_height": "height only after the scan",
    }
    for path in sorted((shared_data / "odd").iterdir()):
        data = path.read_bytes() if path.is_file() else b""
        if data[:2] != b"\xff\xd8":
            continue
        if path.stem in expected:
            assert (path.name, reason_for(data)) == (path.name, expected[path.stem])
        else:
            assert np.array_equal(by_opencv(add_restarts(data)), by_opencv(data)), path.name


@pytest.mark.parametrize("progressive", [False, True])
def test_damaged_bytes_never_look_sound(progressive: bool) -> None:
    """Of files with flipped, lost or added bytes those are tiled that libjpeg reads without a warning."""
    rng = np.random.default_rng(progressive)
    sound = encode(picture(97, 131), "4:2:0", progressive=progressive)
    tiled = 0
    for _ in range(300):
        data = bytearray(sound)
        at = int(rng.integers(2, len(data)))
        match rng.integers(3):
            case 0:
                data[at] ^= 1 << int(rng.integers(8))
            case 1:
                del data[at : at + int(rng.integers(1, 20))]
            case _:
                data[at:at] = rng.bytes(int(rng.integers(1, 8)))
        try:
            result = add_restarts(bytes(data))
        except Untiled:
            continue
        tiled += 1
        image = by_opencv(bytes(data))  # OpenCV 5 returns nothing where libjpeg warns
        assert image is not None
        assert np.array_equal(by_opencv(result), image)
    assert 0 < tiled < 200  # flips that only change a value are sound for any decoder


def test_coefficients_have_the_type_that_is_promised() -> None:
    """Coefficients are int16 blocks of 64, components one after the other."""
    opened = read_coefficients(encode(picture(97, 131), "4:2:0"))

    assert opened.blocks.dtype == np.int16
    assert opened.grid.tolist() == [[0, 18, 2, 2], [14 * 18, 9, 1, 1], [14 * 18 + 7 * 9, 9, 1, 1]]
    assert opened.blocks.shape == (14 * 18 + 2 * 7 * 9, 64)
