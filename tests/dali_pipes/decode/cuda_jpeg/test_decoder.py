"""decoder="cuda" in a loader, its kernels on the CPU: the batches of decoder="cpu", whatever stands among the files."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import cv2
import pytest
import torch

from dali_pipes import Loader, LoaderError
from dali_pipes.choose import choose
from dali_pipes.decode.cuda_jpeg.batch import Arenas, Planned, launch
from dali_pipes.decode.cuda_jpeg.on_cpu import NoKernels
from dali_pipes.jpeg.checkpoints import EVERY, Checkpoints, find_all_checkpoints, find_checkpoints
from dali_pipes.jpeg.finder import FINDER
from dali_pipes.jpeg.stored_checkpoints import checkpoints_of
from gpu_aug import CenterCrop, HorizontalFlip, RandomResizedCrop, Recipe, Resize
from gpu_aug.views import Views
from readers import open_dataset
from tests.support.cuda_jpegs import on_the_cpu
from tests.support.jpegs import SAMPLINGS, encode, picture, turned


@pytest.fixture(autouse=True)
def _no_gpu_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Loaders asked for decoder="cuda" take it on the CPU."""
    monkeypatch.setenv("GPU_AUG_CACHE", str(tmp_path / "cache"))
    with on_the_cpu():
        yield


def _folder(root: Path, count: int = 30) -> Path:
    """Baseline JPEGs of all kinds, and between them a progressive one and a PNG."""
    for number in range(count):
        height, width = 60 + 7 * number % 50, 50 + 11 * number % 70
        sampling = [*SAMPLINGS, "gray"][number % 6]
        data = encode(picture(height, width, number), sampling, restart=4 * (number % 3))
        path = root / str(number % 3) / f"{number:03}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(turned(data, 1 + number % 8))
    cv2.imwrite(str(root / "1" / "200.png"), picture(40, 50))
    progressive = [cv2.IMWRITE_JPEG_PROGRESSIVE, 1]
    cv2.imwrite(str(root / "1" / "201.jpg"), picture(40, 50), progressive)
    return root


def _batches(dataset: object, recipe: object, decoder: str, **options: object) -> list[tuple[torch.Tensor, ...]]:  # fmt: skip
    loader = Loader(
        dataset,
        recipe,
        batch_size=8,
        decoder=decoder,
        device="cpu",
        seed=3,
        num_threads=2,
        **options,
    )  # type: ignore[arg-type]
    found = []
    for batch in loader:
        views = batch.images if isinstance(batch.images, tuple | list) else [batch.images]
        found.append((*views, torch.as_tensor(batch.indices), torch.as_tensor(batch.valid)))
    return found


@pytest.mark.parametrize("engine", ["fused", "kornia"])
def test_batches_are_those_of_the_cpu(engine: str, tmp_path: Path) -> None:
    """Two epochs: checkpoints are found in the first, and known in the second."""
    dataset = open_dataset(_folder(tmp_path / "data"))
    recipe = Recipe([RandomResizedCrop(32), HorizontalFlip()])
    expected = _batches(dataset, recipe, "cpu", engine=engine)
    for _ in range(2):
        found = _batches(dataset, recipe, "cuda", engine=engine)
        for mine, other in zip(found, expected, strict=True):
            for one, two in zip(mine, other, strict=True):
                assert torch.equal(one, two)


def test_several_views_and_sizes_are_those_of_the_cpu(tmp_path: Path) -> None:
    """Two views of each image, and canvases of sizes of their own."""
    dataset = open_dataset(_folder(tmp_path / "data", 16))
    small = Recipe([RandomResizedCrop(24)])
    ragged = Recipe([HorizontalFlip(), Resize(40), CenterCrop(32)])
    for recipe in (Views([small, small]), ragged):
        found, expected = (_batches(dataset, recipe, name) for name in ("cuda", "cpu"))
        for mine, other in zip(found, expected, strict=True):
            for one, two in zip(mine, other, strict=True):
                assert torch.equal(one, two)


def test_a_damaged_file_is_replaced_as_the_cpu_replaces_it(tmp_path: Path) -> None:
    """A cut file costs itself alone, and another sample stands in its place."""
    folder = _folder(tmp_path / "data")
    cut = folder / "0" / "003.jpg"
    cut.write_bytes(cut.read_bytes()[:400])
    dataset, recipe = open_dataset(folder), Recipe([RandomResizedCrop(32)])
    found, expected = (
        _batches(dataset, recipe, name, on_bad_sample="replace") for name in ("cuda", "cpu")
    )
    for mine, other in zip(found, expected, strict=True):
        for one, two in zip(mine, other, strict=True):
            assert torch.equal(one, two)


def test_kernels_decode_what_they_can(tmp_path: Path) -> None:
    """All baseline JPEGs go to the kernels, in as many launches as their memory needs."""
    dataset = open_dataset(_folder(tmp_path / "data", 16))
    launched = []

    def launch_here(planned: Planned, *rest: Any) -> Any:
        launched.append(int((planned.numbers >= 0).sum()))
        return launch(planned, *rest)

    with (
        patch("dali_pipes.decode.cuda_jpeg.decoder.launch", launch_here),
        patch("dali_pipes.decode.cuda_jpeg.decoder._LAUNCH_BYTES", 200_000),
    ):
        _batches(dataset, Recipe([RandomResizedCrop(32)]), "cuda")

    assert (
        sum(launched) >= 14
    )  # two of 18 files are others, and two of them are left out of full batches
    assert len(launched) > 2


def test_kernels_that_disagree_end_the_loop(tmp_path: Path) -> None:
    """Checkpoints that are wrong are noticed, and the error names what to do."""
    dataset = open_dataset(_folder(tmp_path / "data"))

    def find(*asked: Any) -> Any:
        found = find_all_checkpoints(*asked)
        for one in found:
            one.rows["bit"] += 1
        return found

    with (
        patch("dali_pipes.decode.cuda_jpeg.known.find_all_checkpoints", find),
        pytest.raises(LoaderError, match=r'sound.*use decoder="cpu"'),
    ):
        _batches(dataset, Recipe([RandomResizedCrop(32)]), "cuda")


def test_seek_points_of_another_distance_are_used(tmp_path: Path) -> None:
    """Rows that an earlier version stored every 8 MCUs serve, and no file is read as a whole again."""
    dataset = open_dataset(_folder(tmp_path / "data", 16))
    images = [bytes(sample.image) for sample in dataset]
    digests = [FINDER.digest(image) for image in images]
    found = [Checkpoints(status, 8, rows) for status, rows in (find_checkpoints(image, 8) for image in images)]  # fmt: skip
    checkpoints_of(dataset).keep_all(list(zip(range(len(images)), digests, found, strict=True)))
    assert EVERY != 8
    assert any(len(one.rows) for one in found)
    expected = _batches(dataset, Recipe([RandomResizedCrop(32)]), "cpu")
    with patch(
        "dali_pipes.decode.cuda_jpeg.known.find_all_checkpoints", side_effect=AssertionError
    ):
        batches = _batches(dataset, Recipe([RandomResizedCrop(32)]), "cuda")

    for mine, other in zip(batches, expected, strict=True):
        assert all(torch.equal(one, two) for one, two in zip(mine, other, strict=True))


def test_the_host_works_without_kernels(tmp_path: Path) -> None:
    """Measurements of the host leave the device out, and arenas are used again from step to step."""
    dataset = open_dataset(_folder(tmp_path / "data"))
    with (
        patch("dali_pipes.decode.cuda_jpeg.on_gpu.gpu_kernels", lambda _device: NoKernels()),
        patch.object(Arenas, "give_back", autospec=True, side_effect=Arenas.give_back) as given,
    ):
        batches = _batches(dataset, Recipe([RandomResizedCrop(32)]), "cuda")

    assert len(batches) == 4
    assert given.call_count >= 2


def test_a_gpu_is_needed() -> None:
    """Without one the decoder is refused, and clips are."""
    with pytest.raises(LoaderError, match='decoder="cuda" decodes on a GPU, and '):
        choose("cpu", "cuda", "auto")
