"""The benchmark of decoders: every way decodes the same pixels, kind by kind."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bench.micro import decoders
from bench.micro.decoder_ways import ways_of
from bench.micro.decoders import OPENCV, measure, tasks
from bench.output.errors import BenchError
from tests.support.commands import Run
from tests.support.jpegs import opencv, picture

KINDS = {
    "baseline jpeg": ("a.jpg", {"quality": 90}),
    "progressive jpeg": ("b.jpg", {"progressive": True}),
    "png": ("c.png", {}),
    "webp": ("d.webp", {"quality": 80}),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two pictures of each kind."""
    for name, options in KINDS.values():
        for seed in range(2):
            picture_ = Image.fromarray(picture(90, 140 + seed, seed))
            picture_.save(tmp_path / f"{seed}{name}", **options)
    return tmp_path


def test_kinds_are_told_apart(folder: Path) -> None:
    """JPEGs by their process, others by their format."""
    found = tasks(str(folder))

    assert list(found) == sorted(KINDS)
    assert all(len(task.files) == 2 for task in found.values())


@pytest.mark.parametrize("kind", KINDS)
def test_every_way_decodes_the_pixels(kind: str, folder: Path) -> None:
    """Whole images and crops of OpenCV's; what does a part of the work gives none."""
    task = tasks(str(folder))[kind]
    wholes = [opencv(data) for data in task.files]
    cuts = [
        whole[top : top + height, left : left + width]
        for whole, (top, left, height, width) in zip(wholes, task.crops.tolist(), strict=True)
    ]
    ways = ways_of(kind)
    assert OPENCV in ways
    for name, make in ways.items():
        images = make(task)()
        if "alone" in name:
            assert not images
        elif "at 1/" in name:
            assert [image.shape[0] for image in images] == [-(-90 // int(name[11]))] * 2
        else:
            expected = cuts if name.startswith("crop") else wholes
            for image, other in zip(images, expected, strict=True):
                assert np.array_equal(image, other), name


def test_inflating_gives_every_row(folder: Path) -> None:
    """A negative control: a stream that is cut is noticed, so all of it is inflated."""
    task = tasks(str(folder))["png"]
    with Image.open(io.BytesIO(task.files[0])) as image:
        assert image.format == "PNG"
    ways_of("png")["inflating alone, zlib"](task)()
    damaged = task.files[0].replace(b"IEND", b"IDAT")
    task.files[0] = damaged[:-60] + damaged[-12:]
    with pytest.raises(Exception, match="incomplete"):
        ways_of("png")["inflating alone, zlib"](task)()


def test_times_are_relative_to_opencv(folder: Path) -> None:
    """OpenCV takes as long as OpenCV."""
    found = measure(
        tasks(str(folder))["progressive jpeg"],
        ways_of("progressive jpeg"),
        seconds=0.002,
        rounds=3,
    )

    assert found.ratios[OPENCV] == 1
    assert found.ratios.keys() == ways_of("progressive jpeg").keys()


def test_command(run: Run, folder: Path, tmp_path: Path) -> None:
    """The table has all kinds."""
    json = tmp_path / "decode.json"
    code, text, _ = run(
        *("bench", "decode", str(folder), "--seconds", "0.01", "--rounds", "2"),
        *("--json", str(json)),
    )

    assert code == 0
    assert all(kind in text for kind in KINDS)
    assert json.exists()


def test_nothing_to_measure_is_refused() -> None:
    """No time and no rounds make no result."""
    with pytest.raises(BenchError, match=r"greater than 0, got 0.0 and 5"):
        decoders.decoders_and_show("anything", seconds=0.0, rounds=5, json_path=None)
