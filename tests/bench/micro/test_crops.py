"""The benchmark of small crops: every way decodes the same pixels, and what is told."""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from rich.console import Console

from bench.micro import crops
from bench.micro.crop_decoders import Task, Way
from bench.micro.crops import OURS, WAYS, measure, show
from bench.output.errors import BenchError

SIZE = (150, 330)


@pytest.fixture
def task() -> Task:
    """Six crops of three smooth pictures with some noise, 4:2:0."""
    rng = np.random.default_rng(0)
    jpegs: list[bytes] = []
    for seed in range(3):
        coarse = rng.integers(0, 256, (10, 20, 3)).astype(np.uint8)
        picture = Image.fromarray(coarse).resize(SIZE[::-1], Image.Resampling.BICUBIC)
        stream = io.BytesIO()
        picture.save(stream, "JPEG", quality=85 + seed)
        jpegs.append(stream.getvalue())
    corners = np.stack([rng.integers(0, 110, 6), rng.integers(0, 260, 6)], 1)
    rectangles = np.hstack([corners, np.tile((40, 70), (6, 1))]).astype(np.int32)
    return Task(jpegs * 2, rectangles, SIZE)


def by_pillow(task: Task) -> list[NDArray[np.uint8]]:
    """The crops out of what Pillow decodes."""
    images = [np.asarray(Image.open(io.BytesIO(data))) for data in task.jpegs]
    return [
        image[top : top + height, left : left + width]
        for image, (top, left, height, width) in zip(images, task.crops.tolist(), strict=True)
    ]


@pytest.mark.parametrize("name", WAYS)
def test_every_way_decodes_the_windows(name: str, task: Task) -> None:
    """Each way's pixels are those of Pillow's decode of the whole file."""
    if "nvImageCodec" in name or "DALI" in name:
        pytest.importorskip("nvidia.dali")

    images = WAYS[name](task)()

    assert len(images) == 6
    for image, expected in zip(images, by_pillow(task), strict=True):
        assert np.array_equal(image, expected)


def test_differences_and_absences_are_told(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """A way whose pixels differ has the difference in its row, one that fails a reason."""

    def brighter(task: Task) -> Way:
        def run() -> Sequence[NDArray[np.uint8]]:
            return [np.minimum(image, 250) + np.uint8(5) for image in WAYS[OURS](task)()]

        return run

    def missing(_: Task) -> Way:
        raise ImportError("no such package")

    ways = {OURS: WAYS[OURS], "brighter": brighter, "missing": missing}
    monkeypatch.setattr(crops, "WAYS", ways)

    found = measure(task, seconds=0.01, rounds=3)

    assert found.differences == {OURS: 0, "brighter": 5}
    assert found.absent == {"missing": "ImportError: no such package"}
    assert found.ratios[OURS] == 1
    assert set(found.ratios) == {OURS, "brighter"}
    stream = io.StringIO()
    show(found, Console(file=stream, width=90))
    assert "missing took no part: ImportError: no such package" in stream.getvalue()


def test_photographs_become_windows_of_1080p(photos: list[Path], tmp_path: Path) -> None:
    """Photographs of any size are brought to 1920x1080, and crops lie inside."""
    listing = tmp_path / "photos.txt"
    listing.write_text("\n".join(map(str, photos[:2])))

    task, enlarged = crops._task(str(listing))

    with Image.open(io.BytesIO(task.jpegs[0])) as image:
        assert image.size == (1920, 1080)
    assert 0 <= enlarged <= 2
    ends = task.crops[:, :2] + task.crops[:, 2:]
    assert (task.crops[:, :2] >= 0).all()
    assert (ends <= crops.SIZE).all()
    assert len({id(data) for data in task.jpegs}) == 2


def test_nothing_to_measure_is_refused() -> None:
    """No time and no rounds make no result."""
    with pytest.raises(BenchError, match=r"greater than 0, got 0.0 and 5"):
        crops.crops_and_show("anything", seconds=0.0, rounds=5, json_path=None)
