"""`gpu-aug bench published imread`: every decoder makes the pixels of Pillow, and a wrong one is refused."""

import gc
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, JpegImagePlugin

from bench.compare.contract import Contestant, Pipeline, Unable
from bench.compare.photographs import encode
from bench.micro.decode import to_files
from bench.micro.rows import Task, measure_row
from bench.published import imread, imread_decoders
from bench.published.imread_decoders import (
    BATCH_SIZE,
    LIBRARIES,
    DecodeTask,
    decode,
    start,
    start_our_loader,
    start_ours,
)
from bench.published.processes import rows_of_processes
from tests.support.jpegs import picture

pytestmark = pytest.mark.filterwarnings(
    "ignore:The image decoding and encoding capabilities of TorchVision:DeprecationWarning"
)

HERE = [name for name, (module, _) in LIBRARIES.items() if find_spec(module.partition(".")[0])]
OURS: Mapping[str, dict[str, bool]] = {
    "full image": {"is_crop": False, "is_known": False},
    "crop": {"is_crop": True, "is_known": False},
    "crop with seek points": {"is_crop": True, "is_known": True},
}
START = "bench.published.imread_decoders:start"


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Undo what a contestant sets for its own process."""
    monkeypatch.setattr(imread_decoders, "_ONE_THREAD", {})
    yield
    gc.enable()


def task_of(*sizes: tuple[int, int], num_workers: int = 0) -> DecodeTask:
    """Return a task of JPEGs of the given sizes."""
    pictures = [picture(*size, seed) for seed, size in enumerate(sizes)]
    files = [encode(Image.fromarray(pixels), format="jpeg", quality=90) for pixels in pictures]
    return DecodeTask(files, to_files(files).crops, num_workers)


TASK = task_of((250, 310), (300, 290))


def first_batch(pipeline: Pipeline, task: DecodeTask) -> Any:
    """Return the first batch, as a contestant's process checks it."""
    batch = next(pipeline.batches)
    task.check_batch(batch)
    return batch


@pytest.mark.parametrize("library", HERE)
def test_libraries_make_pixels_of_pillow(library: str) -> None:
    """Each array is C-contiguous RGB; later passes have the length of the first one."""
    pipeline = start(TASK, library=library)
    batch = first_batch(pipeline, TASK)

    assert [image.shape for image in batch] == [(250, 310, 3), (300, 290, 3)]
    assert all(image.flags.c_contiguous and image.dtype == np.uint8 for image in batch)
    assert len(next(pipeline.batches)) == 2


@pytest.mark.parametrize("part", OURS)
def test_ours_makes_exactly_pixels_of_pillow(part: str) -> None:
    batch = first_batch(start_ours(TASK, **OURS[part]), TASK)

    for image, data, crop in zip(batch, TASK.files, TASK.crops.tolist(), strict=True):
        top, left, height, width = crop if OURS[part]["is_crop"] else (0, 0, *image.shape[:2])
        expected = decode("Pillow", data)[top : top + height, left : left + width]
        np.testing.assert_array_equal(image, expected)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda image: np.ascontiguousarray(image[..., ::-1]), "differs from Pillow by"),
        (lambda image: image[::-1].copy(), "differs from Pillow by"),
        (lambda image: np.asfortranarray(image), "C-contiguous: False"),
        (lambda image: image.astype(np.float32), "made float32"),
        (lambda image: image[:-1].copy(), "not uint8"),
        (lambda image: image.transpose(2, 0, 1).copy(), "not uint8"),
    ],
    ids=["BGR", "upside down", "other strides", "floats", "a row less", "channels first"],
)
def test_wrong_decoders_are_refused(wrong: Any, message: str) -> None:
    right: list[NDArray[np.uint8]] = [decode("Pillow", data) for data in TASK.files]

    TASK.check_batch(right)
    with pytest.raises(Unable, match=message):
        TASK.check_batch([right[0], wrong(right[1])])


@pytest.mark.parametrize("library", ["Pillow", "pyvips"])
def test_workers_deliver_batches(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The consumer gets batches of 32 in the order of the files, also from a library that only workers load."""
    monkeypatch.setitem(LIBRARIES, library, LIBRARIES["Pillow"])
    task = task_of((40, 60), (50, 30), num_workers=1)

    assert len(first_batch(start(task, library=library), task)) == BATCH_SIZE


def test_our_loader_delivers_full_images_of_one_size() -> None:
    task = task_of((40, 60), (40, 60), num_workers=1)

    assert first_batch(start_our_loader(task), task).shape == (BATCH_SIZE, 40, 60, 3)
    with pytest.raises(Unable, match="several"):
        start_our_loader(TASK)


def test_controlled_files(
    photos: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each cell has the same pictures as baseline JPEGs with 4:2:0, of one long edge and quality."""
    made: dict[str, DecodeTask] = {}
    monkeypatch.setattr(
        imread, "rows_of_processes", lambda _, tasks, **_more: made.update(tasks) or ()
    )
    monkeypatch.setattr(imread, "_NUM_SOURCES", 1)
    monkeypatch.setattr(imread, "_QUALITIES", (50, 90))
    assert list(imread.rows(Task(str(photos[0].parent), tmp_path, quick=False))) == []

    for edge, longest in {"512 px": 512, "1024 px": 1024, "2048 px": 2048, "native": 4000}.items():
        low, high = (
            made[f"decode-memory, {edge}, quality {quality}, from JPEGs"] for quality in (50, 90)
        )
        assert 1.5 * len(low.files[0]) < len(high.files[0])
        with Image.open(BytesIO(low.files[0])) as image:
            assert max(image.size) == longest
            assert "progressive" not in image.info
            assert JpegImagePlugin.get_sampling(image) == 2  # 4:2:0
    assert [name for name, task in made.items() if task.num_workers] == [
        "loader-supply, files as they are",
        "loader-supply, 512 px, quality 90, from JPEGs",
    ]


def test_contestants_in_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one is the reference; a missing one is named with the command that installs it."""
    monkeypatch.chdir(tmp_path)  # without environments of peers
    contestants = [
        Contestant("Pillow", "baseline", START, {"library": "Pillow"}),
        Contestant("OpenCV", "baseline", START, {"library": "OpenCV"}),
        Contestant("TensorFlow", "baseline", START, {"library": "TensorFlow"}, "tensorflow"),
    ]
    tasks = {"first": TASK, "second": task_of((40, 60))}
    results = [
        measure_row(row, seconds=0.01, rounds=2, progress=lambda _: None, order_seed=0)
        for row in rows_of_processes(contestants, tasks)
    ]

    assert [result.name for result in results] == ["first", "second"]
    for result in results:
        assert result.speeds["Pillow"] == 1
        assert len(result.measured["OpenCV"].turns) == 2
        assert "gpu-aug bench published imread --install" in result.absent["TensorFlow"]
