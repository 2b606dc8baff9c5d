"""`add_restarts` changes no pixel, keeps what belongs to the picture, and costs little."""

import io
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dali_pipes.jpeg.tiling.add_restarts import add_restarts
from dali_pipes.jpeg.tiling.coefficients import read_coefficients
from dali_pipes.jpeg.tiling.encode import plan_scan, write_scan
from readers import restart_offsets
from tests.support.tile_kinds import KINDS, by_opencv, by_pillow, encode, picture


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_pixels_stay(kind: str, progressive: bool) -> None:
    """Pillow and OpenCV decode a tiled file to the pixels of the original, odd sizes included."""
    for seed, (height, width) in enumerate([(97, 131), (161, 240), (16, 333), (250, 57)]):
        data = encode(picture(height, width, seed), kind, progressive=progressive, quality=95)

        tiled = add_restarts(data)

        assert restart_offsets(tiled).size > 1
        assert np.array_equal(by_pillow(data), by_pillow(tiled))
        assert np.array_equal(by_opencv(data), by_opencv(tiled))


def test_the_comparison_notices_one_coefficient() -> None:
    """A single coefficient that is off by one shows in the pixels."""
    data = encode(picture(97, 131), "4:2:0")
    opened = read_coefficients(data)
    header = b"\xff\xd8" + b"".join(bytes(segment) for segment in opened.header)

    same = header + write_scan(opened, plan_scan(opened, 9)) + b"\xff\xd9"
    opened.blocks[20, 1] += 1
    other = header + write_scan(opened, plan_scan(opened, 9)) + b"\xff\xd9"

    assert np.array_equal(by_pillow(data), by_pillow(same))
    assert not np.array_equal(by_pillow(data), by_pillow(other))


def test_photographs_stay_and_hardly_grow(photos: list[Path]) -> None:
    """Baseline photographs keep their pixels and grow by less than 0.7 %."""
    for path in photos:
        data = path.read_bytes()

        tiled = add_restarts(data)

        assert np.array_equal(by_opencv(data), by_opencv(tiled))
        progressive = b"\xff\xc2" in data[:4096]
        assert len(tiled) < (1.12 if progressive else 1.007) * len(data)


def test_a_second_time_changes_nothing(photos: list[Path]) -> None:
    """A tiled file is returned as it is."""
    for path in photos[:4]:
        tiled = add_restarts(path.read_bytes())

        assert add_restarts(tiled) == tiled


def test_coarse_restarts_are_made_finer() -> None:
    """A file with one marker per row of a wide picture gets tiles that are narrower."""
    data = encode(picture(64, 2000), "4:2:0", restart=125)

    tiled = add_restarts(data)

    assert restart_offsets(data).size == 4 + 1
    assert restart_offsets(tiled).size > 4 * 4


def test_metadata_stays() -> None:
    """EXIF, the colour profile, a comment and Adobe's segment are kept byte for byte."""
    exif, profile = Image.Exif(), bytes(range(256)) * 300  # more than a segment holds
    exif[274], exif[305] = 6, "a camera"
    stream = io.BytesIO()
    image = Image.fromarray(picture(97, 131)).convert("CMYK")
    image.save(stream, "JPEG", exif=exif, icc_profile=profile, comment=b"a comment")
    data = stream.getvalue()

    tiled = add_restarts(data)

    with Image.open(io.BytesIO(data)) as before, Image.open(io.BytesIO(tiled)) as after:
        assert after.app == before.app
        assert after.info["exif"] == before.info["exif"]
        assert after.info["icc_profile"] == profile
        assert after.info["comment"] == b"a comment"
    assert b"Adobe" in tiled


def test_what_follows_the_end_is_dropped() -> None:
    """Bytes behind the end marker, which no decoder of a single picture reads, go."""
    data = encode(picture(97, 131), "4:2:0")

    assert add_restarts(data + data) == add_restarts(data)


def test_any_buffer_is_taken() -> None:
    """Bytes, read-only views and writable ones give the same file."""
    data = encode(picture(97, 131), "4:2:0")

    views = (data, memoryview(data), memoryview(bytearray(data)))

    assert len({add_restarts(view) for view in views}) == 1


@pytest.mark.skipif(shutil.which("jpegtran") is None, reason="no jpegtran")
@pytest.mark.parametrize("kind", ["4:2:0", "4:4:4", "grey"])
def test_as_small_as_jpegtran(kind: str) -> None:
    """The result is about as long as that of ``jpegtran -optimize -restart``."""
    data = encode(picture(250, 333), kind)
    tiled = add_restarts(data)
    interval = read_coefficients(tiled).interval

    tool = ["jpegtran", "-copy", "all", "-optimize", "-restart", f"{interval}B"]
    theirs = subprocess.run(tool, input=data, capture_output=True, check=True).stdout

    assert abs(len(tiled) - len(theirs)) <= 0.001 * len(theirs)
