"""decoder="cuda" in a loader, its kernels on the CPU: the batches of decoder="cpu", and what they say of the last steps."""

import ctypes
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import cv2
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from dali_pipes import Loader, LoaderError
from dali_pipes.arguments.choose import choose
from dali_pipes.decode.cuda_jpeg.batch import Arenas, LaunchPlan, launch
from dali_pipes.decode.cuda_jpeg.decoder import _LaunchStatuses
from dali_pipes.decode.cuda_jpeg.on_cpu import NoKernels
from dali_pipes.jpeg.seek_point_stores import open_seek_points
from dali_pipes.jpeg.seek_points import (
    EVERY,
    FINDER,
    SeekPoints,
    find_all_seek_points,
    find_seek_points,
)
from dali_pipes.jpeg.status import LEFT_OVER
from gpu_aug import CenterCrop, HorizontalFlip, RandomResizedCrop, Recipe, Resize
from gpu_aug.views import Views
from readers import Dataset, open_dataset
from tests.support.cuda_jpegs import on_the_cpu, write_baseline_jpegs
from tests.support.jpegs import encode, picture
from tests.support.loaders import loader_maker
from tests.support.same_batches import assert_same

CROP = Recipe([RandomResizedCrop(32)])


@pytest.fixture(autouse=True)
def _no_gpu_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Loaders asked for decoder="cuda" take it on the CPU."""
    monkeypatch.setenv("GPU_AUG_CACHE", str(tmp_path / "cache"))
    with on_the_cpu():
        yield


def _folder(root: Path, count: int = 30) -> Path:
    """Baseline JPEGs of all kinds, and between them a progressive one and a PNG."""
    write_baseline_jpegs(root, count)
    cv2.imwrite(str(root / "1" / "200.png"), picture(40, 50))
    progressive = [cv2.IMWRITE_JPEG_PROGRESSIVE, 1]
    cv2.imwrite(str(root / "1" / "201.jpg"), picture(40, 50), progressive)
    return root


load = loader_maker(CROP, batch_size=8, seed=3, num_threads=2, decoder="cuda")


def assert_as_on_the_cpu(dataset: Dataset, recipe: Recipe | Views, **options: Any) -> None:
    """An epoch of the kernels is that of the CPU, to the bit."""
    found, expected = (
        list(load(dataset, recipe, decoder=name, **options)) for name in ("cuda", "cpu")
    )
    assert_same(found, expected)


@pytest.mark.parametrize("engine", ["fused", "kornia"])
def test_batches_are_those_of_the_cpu(engine: str, tmp_path: Path) -> None:
    """Two epochs: seek points are found in the first, and known in the second."""
    dataset = open_dataset(_folder(tmp_path / "data"))
    recipe = Recipe([RandomResizedCrop(32), HorizontalFlip()])
    for _ in range(2):
        assert_as_on_the_cpu(dataset, recipe, engine=engine)


def test_several_views_and_sizes_are_those_of_the_cpu(tmp_path: Path) -> None:
    """Two views of each image, and canvases of sizes of their own."""
    dataset = open_dataset(_folder(tmp_path / "data", 16))
    small = Recipe([RandomResizedCrop(24)])
    assert_as_on_the_cpu(dataset, Views([small, small]))
    assert_as_on_the_cpu(dataset, Recipe([HorizontalFlip(), Resize(40), CenterCrop(32)]))


def test_a_damaged_file_is_replaced_as_the_cpu_replaces_it(tmp_path: Path) -> None:
    """A cut file costs itself alone, and another sample stands in its place."""
    folder = _folder(tmp_path / "data")
    cut = folder / "0" / "003.jpg"
    cut.write_bytes(cut.read_bytes()[:400])
    assert_as_on_the_cpu(open_dataset(folder), CROP, on_bad_sample="replace")


def test_kernels_decode_what_they_can(tmp_path: Path) -> None:
    """All baseline JPEGs go to the kernels, in as many launches as their memory needs."""
    dataset = open_dataset(_folder(tmp_path / "data", 16))
    launched = []

    def launch_here(planned: LaunchPlan, *rest: Any) -> Any:
        launched.append(int((planned.numbers >= 0).sum()))
        return launch(planned, *rest)

    with (
        patch("dali_pipes.decode.cuda_jpeg.decoder.launch", launch_here),
        patch("dali_pipes.decode.cuda_jpeg.decoder._LAUNCH_BYTES", 200_000),
    ):
        list(load(dataset))

    # Two of 18 files are others, and two of them are left out of full batches.
    assert sum(launched) >= 14
    assert len(launched) > 2


def test_seek_points_of_another_distance_are_used(tmp_path: Path) -> None:
    """Rows that an earlier version stored every 8 MCUs serve, and no file is read as a whole again."""
    dataset = open_dataset(_folder(tmp_path / "data", 16))
    images = [bytes(sample.image) for sample in dataset]
    digests = [FINDER.digest(image) for image in images]
    found = [SeekPoints(status, 8, rows) for status, rows in (find_seek_points(image, 8) for image in images)]  # fmt: skip
    open_seek_points(dataset).store_all(list(zip(range(len(images)), digests, found, strict=True)))
    assert EVERY != 8
    assert any(len(one.rows) for one in found)
    with patch(
        "dali_pipes.decode.cuda_jpeg.known.find_all_seek_points", side_effect=AssertionError
    ):
        assert_as_on_the_cpu(dataset, CROP)


def test_the_host_works_without_kernels(tmp_path: Path) -> None:
    """Measurements of the host leave the device out, and arenas are used again from step to step."""
    dataset = open_dataset(_folder(tmp_path / "data"))
    with (
        patch("dali_pipes.decode.cuda_jpeg.on_gpu.gpu_kernels", lambda _device: NoKernels()),
        patch.object(Arenas, "give_back", autospec=True, side_effect=Arenas.give_back) as given,
    ):
        assert len(list(load(dataset))) == 4

    assert given.call_count >= 2


def test_a_gpu_is_needed() -> None:
    """Without one the decoder is refused, and clips are."""
    with pytest.raises(LoaderError, match='decoder="cuda" decodes on a GPU, and '):
        choose("cpu", "cuda", "auto")


SOUND = 4


"""Files whose seek points are right; those of the last one are not."""


@pytest.fixture
def loader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Loader:
    """One step, whose last file has seek points with other DC values."""
    root = tmp_path / "data"
    root.mkdir()
    for number in range(SOUND + 1):
        data = encode(picture(90, 70, number), "4:2:0")
        (root / f"{number:03}.jpg").write_bytes(data)

    def find(files: Any, *rest: Any) -> Any:
        found = find_all_seek_points(files, *rest)
        for (address, num_bytes), one in zip(files.tolist(), found, strict=True):
            if ctypes.string_at(address, num_bytes) == data:
                one.rows["dc"][::2] += (
                    100  # so that all intervals have a wrong end, whatever the crop needs
                )
        return found

    monkeypatch.setattr("dali_pipes.decode.cuda_jpeg.known.find_all_seek_points", find)
    dataset = open_dataset(root, labels=[0] * (SOUND + 1))
    return load(dataset, batch_size=SOUND + 1, shuffle="none")


def test_the_last_step_of_an_epoch_is_heard(loader: Loader) -> None:
    """An epoch of one step ends with the error; it names the file, and no other one."""
    with pytest.raises(LoaderError, match=r'sound.*004\.jpg.*use decoder="cpu"') as told:
        list(loader)

    assert not any(f"{number:03}.jpg" in str(told.value) for number in range(SOUND))


def test_the_last_step_of_a_loop_that_is_left_is_heard(loader: Loader) -> None:
    """Closing the loader raises, and leaves nothing open."""
    loop = iter(loader)
    next(loop)

    with pytest.raises(LoaderError, match=r"004\.jpg"):
        loader.close()
    loader.close()
    assert list(loop) == []


class _Late:
    """An event that has not come; who waits for it finds the statuses copied."""

    def __init__(self, statuses: NDArray[np.int32]) -> None:
        self._statuses = statuses

    def query(self) -> bool:
        """Whether it has come."""
        return False

    def synchronize(self) -> None:
        """The host waits."""
        self._statuses[1] = LEFT_OVER


def test_the_end_waits_for_statuses_that_are_under_way() -> None:
    """On a GPU they come late."""
    statuses = np.zeros(2, np.int32)
    step: Any = SimpleNamespace(key=["good", "bad"].__getitem__)
    launched = _LaunchStatuses(_Late(statuses), statuses, step, np.arange(2), torch.empty(0))

    assert not launched.are_copied()
    launched.require_good()
    launched.wait()
    with pytest.raises(LoaderError, match=r"the scan ends too late\) that are sound: bad;"):
        launched.require_good()
