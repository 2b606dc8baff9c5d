"""What our JPEG decoder does not know, or finds damaged, it leaves to OpenCV: a status, never wrong pixels."""

import io
import struct
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from dali_pipes import DecodeError
from dali_pipes.decode import opencv
from readers import HeaderError, read_header
from tests.support.jpegs import (
    SAMPLINGS,
    WAYS,
    assert_decodes,
    damage,
    encode,
    ours,
    picture,
    reason_of,
    turned,
    with_code_of_ones,
)

pytestmark = pytest.mark.skipif(
    cv2.__version__.startswith("4.10."), reason="OpenCV 4.10 returns damaged files half gray"
)


def test_odd_files_decode_as_opencv_decodes_them(shared_data: Path) -> None:
    """Every odd or broken file is refused or decoded to OpenCV's pixels."""
    decoded = []
    for path in sorted((shared_data / "odd").iterdir()):
        if path.suffix in (".csv", ".md") or path.is_dir():
            continue
        data = path.read_bytes()
        try:
            header = read_header(data)
        except HeaderError:
            continue
        size = header.height, header.width
        if size[0] * size[1] > 10**8:
            continue
        status, pixels = ours(data, size)
        if status == 0:
            np.testing.assert_array_equal(pixels, opencv.decode(data, size), err_msg=path.name)
            decoded.append(path.name)

    assert {
        "restarts_photo.jpg",
        "sampling_411.jpg",
        "exif_landscape_6.jpg",
        "progressive.jpg",
    } <= set(decoded)
    assert {"no_end_marker.jpg", "cmyk.jpg"}.isdisjoint(decoded)


@pytest.mark.parametrize("way", WAYS)
def test_damaged_files_are_refused_or_decode_as_opencv_decodes_them(way: str) -> None:
    """Bits flipped, bytes overwritten, lost and added, anywhere in the file."""
    rng = np.random.default_rng(len(way))
    refused = 0
    for trial in range(150):
        sampling = [*SAMPLINGS, "gray"][trial % 6]
        sound = encode(picture(33, 47, trial), sampling, quality=40 + trial % 60, restart=trial % 3)
        data = damage(turned(sound, 1 + trial % 8), way, rng)
        try:
            size = read_header(data).height, read_header(data).width
            if size[0] * size[1] > 10**6:
                continue
            expected = opencv.decode(data, size)
        except (HeaderError, DecodeError):
            size, expected = ((33, 47) if trial % 8 < 4 else (47, 33)), None

        status, pixels = ours(data, size)

        refused += status != 0
        if status == 0:
            assert expected is not None, "OpenCV refuses it"
            np.testing.assert_array_equal(pixels, expected)
    assert refused > 30


@pytest.mark.parametrize("progressive", [False, True])
def test_every_truncation_is_refused(progressive: bool) -> None:
    """A file that ends anywhere before its end is refused, with an end marker added and without."""
    data = encode(picture(20, 20), "4:2:0", restart=2, progressive=progressive)
    for length in range(len(data)):
        assert reason_of(data[:length], (20, 20), judge=progressive) != "decoded"
        if length < len(data) - 2:
            ended = data[:length] + b"\xff\xd9"
            assert reason_of(ended, (20, 20), judge=progressive) != "decoded", length


@pytest.mark.parametrize(
    ("mode", "options", "reason"),
    [
        ("CMYK", {}, "neither gray nor YCbCr"),
        ("RGB", {"keep_rgb": True}, "neither gray nor YCbCr"),
    ],
)
def test_other_kinds_are_refused(mode: str, options: dict[str, bool], reason: str) -> None:
    """What is not YCbCr or gray is named."""
    stream = io.BytesIO()
    Image.fromarray(picture(30, 30)).convert(mode).save(stream, "JPEG", **options)

    assert reason_of(stream.getvalue(), (30, 30)) == reason


def test_a_code_of_all_ones_is_refused() -> None:
    """Annex C of ITU-T T.81 keeps it free, and libjpeg refuses a table that has it, used or not."""
    sound = encode(picture(30, 30), "4:2:0")
    assert ours(sound, (30, 30))[0] == 0

    assert "Huffman" in reason_of(with_code_of_ones(sound), (30, 30))
    with pytest.raises(DecodeError):
        opencv.decode(with_code_of_ones(sound), (30, 30))


@pytest.mark.parametrize(
    ("segment", "offset", "number"),
    [(b"\xff\xda", 6, 0x40), (b"\xff\xda", 6, 0x04), (b"\xff\xc0", 12, 4)],
    ids=["DC", "AC", "quantisation"],
)
def test_a_table_number_above_three_is_refused(segment: bytes, offset: int, number: int) -> None:
    """There are four tables of a kind; where a fifth would lie, another kind begins."""
    data = bytearray(encode(picture(30, 30), "gray"))
    at = data.index(segment) + offset
    assert data[at] == 0
    data[at] = number

    assert "quantisation table" in reason_of(bytes(data), (30, 30))


@pytest.mark.parametrize("first", ["no tag", "cut", "no EXIF", 1, 9])
def test_the_first_orientation_there_is_counts(first: str | int) -> None:
    """Of two EXIF segments OpenCV takes the first that has the tag, whatever its number; so do both of our readers."""
    blocks = {"no tag": tiff(65, tag=0x010F), "cut": tiff(6)[:12], "no EXIF": b""}
    block = tiff(first) if isinstance(first, int) else blocks[first]
    sound = encode(picture(20, 34), "4:2:0")
    segments = b"".join(
        b"\xff\xe1" + (len(body) + 8).to_bytes(2, "big") + b"Exif\0\0" + body
        for body in (block, tiff(6))
    )
    data = sound[:2] + segments + sound[2:]
    expected = cv2.cvtColor(cv2.imdecode(np.frombuffer(data, np.uint8), 1), cv2.COLOR_BGR2RGB)

    header = read_header(data)
    assert (header.height, header.width) == expected.shape[:2]
    assert_decodes(expected, data, (header.height, header.width))


def tiff(value: int, tag: int = 0x0112) -> bytes:
    """A directory with one short number."""
    return b"II*\0" + struct.pack("<IHHHIHHI", 8, 1, tag, 3, 1, value, 0, 0)


def test_other_formats_are_refused() -> None:
    """A PNG, and nothing at all."""
    for data in (cv2.imencode(".png", picture(5, 5))[1].tobytes(), b"", b"\xff\xd8\xff\xd9"):
        assert reason_of(data, (5, 5)) != "decoded"


def test_numbers_out_of_range_are_refused() -> None:
    """Steps of 255 for numbers made with steps of 1: libjpeg's 16-bit sums wrap as the processor likes."""
    data = encode(picture(30, 30), "4:4:4", quality=100)
    start = data.index(b"\xff\xdb") + 5
    assert data[start : start + 64] == bytes([1]) * 64

    assert (
        reason_of(data[:start] + bytes([255]) * 64 + data[start + 64 :], (30, 30))
        == "damaged: coefficients out of range"
    )
