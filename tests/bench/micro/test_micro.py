"""`gpu-aug bench micro`: contestants that do the same work, and the command."""

import json
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from bench.compare.photographs import stitch
from bench.micro.decode import LARGE, decoders_of, files_by_kind
from bench.micro.micro import BENCHMARKS
from bench.micro.overhead import store
from bench.micro.without_gpu import host_decoders, without_gpu
from bench.output.errors import BenchError
from dali_pipes.decode.cuda_jpeg import on_gpu
from dali_pipes.decode.cuda_jpeg.on_cpu import NoKernels
from readers import open_dataset
from readers.image.jpeg_process import jpeg_process
from tests.support.commands import Run
from tests.support.jpegs import picture

KINDS: dict[str, tuple[str, dict[str, Any]]] = {
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
            made = Image.fromarray(picture(90, 140 + seed, seed))
            made.save(tmp_path / f"{seed}{name}", **options)
    return tmp_path


@pytest.mark.filterwarnings("ignore:The image decoding and encoding:DeprecationWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_every_decoder_gives_the_same_pixels(kind: str, folder: Path) -> None:
    """Crops are cuts of the full image; smaller ones have the size that is promised."""
    files = files_by_kind(str(folder), 2)[kind]
    made = {
        part: {
            name: make(files)()
            for name, make in decoders.items()
            if name != "simplejpeg" or find_spec("simplejpeg")
        }
        for part, decoders in decoders_of(kind).items()
    }
    reference = made["full"]["OpenCV"]
    for name, images in made["full"].items():
        for image, expected in zip(images, reference, strict=True):
            np.testing.assert_array_equal(image, expected, name)
    for images in made.get("crop", {}).values():
        for image, full, crop in zip(images, reference, files.crops.tolist(), strict=True):
            top, left, height, width = crop
            np.testing.assert_array_equal(image, full[top : top + height, left : left + width])
    for shrink in (2, 4, 8) if "jpeg" in kind else ():
        for images in made[f"1/{shrink}"].values():
            assert [image.shape[:2] for image in images] == [
                (-(-90 // shrink), -(-(140 + seed) // shrink)) for seed in range(2)
            ]


def test_kinds_are_told_apart(folder: Path) -> None:
    """JPEGs by their process, others by their format; no more of each than asked for."""
    found = files_by_kind(str(folder), 1)

    others = ["avif", "heic", "jp2", "jxl", "large baseline jpeg", "lossless webp"]
    assert set(found) - {"heic", "jxl"} == {*KINDS, *others} - {"heic", "jxl"}  # of extras
    assert list(found) == sorted(found)
    assert all(len(files.files) == 1 for files in found.values())
    for kind, (name, _) in KINDS.items():
        assert found[kind].files[0] == (folder / f"0{name}").read_bytes()


def test_lacking_kinds_are_made(folder: Path, tmp_path: Path) -> None:
    """They hold the pixels of the photographs, lossless ones exactly; the large one is stitched from them."""
    jpegs = tmp_path / "jpegs"
    jpegs.mkdir()
    for path in folder.glob("*a.jpg"):
        path.rename(jpegs / path.name)
    found = files_by_kind(str(jpegs), 2)
    for kind in ("png", "lossless webp"):
        for data, path in zip(found[kind].files, sorted(jpegs.iterdir()), strict=True):
            with Image.open(BytesIO(data)) as made, Image.open(path) as original:
                np.testing.assert_array_equal(made.convert("RGB"), original)
    for data in found["progressive jpeg"].files:
        assert jpeg_process(data) == "progressive"
    assert {tuple(size) for size in found[LARGE].sizes.tolist()} == {(300, 400)}


def test_stitched_pictures_are_unscaled_parts() -> None:
    """Squares of the larger half of the photographs lie side by side, and another one comes first for each number."""
    photographs = [np.full((side, side + 9, 3), side, np.uint8) for side in (10, 20, 21, 22)]

    first, second = (stitch(photographs, (45, 50), first=number) for number in range(2))
    assert first.shape == (45, 50, 3)
    assert [first[row, 0, 0] for row in (0, 20, 21, 42)] == [21, 21, 22, 21]
    assert (first[0, 0, 0], second[0, 0, 0]) == (21, 22)


def test_what_is_left_out_without_a_gpu_exists() -> None:
    """Every function that the loader of a GPU calls and that is replaced here is still where it is replaced."""
    with without_gpu():
        if host_decoders() != ["cpu"]:
            assert isinstance(on_gpu.gpu_kernels(torch.device("cuda")), NoKernels)


def test_only_baseline_jpegs_are_stored(folder: Path, tmp_path: Path) -> None:
    """The same files in a folder and a tar; no data without any."""
    (tmp_path / "out").mkdir()
    store(str(folder), tmp_path / "out", 8)

    for form in ("folder", "tar"):
        dataset = open_dataset(str(tmp_path / "out" / form))
        images = {bytes(sample.image) for sample in dataset.fetch(range(len(dataset)))}  # type: ignore[union-attr, arg-type]
        assert images == {(folder / f"{seed}a.jpg").read_bytes() for seed in range(2)}
    only_png = tmp_path / "png"
    only_png.mkdir()
    (folder / "0c.png").rename(only_png / "0c.png")
    with pytest.raises(BenchError, match="no baseline JPEG"):
        store(str(only_png), tmp_path / "png" / "out", 8)


@pytest.mark.parametrize(
    ("name", "row"),
    [
        pytest.param("decode", "baseline jpeg", marks=pytest.mark.long),
        pytest.param("overhead", "Python's lock, tar", marks=pytest.mark.long),
        pytest.param("scale", "start, by length", marks=pytest.mark.long),
    ],
)
def test_command(run: Run, photos: list[Path], tmp_path: Path, name: str, row: str) -> None:
    """A quick run prints a table and writes its rows, all of them measured."""
    path = tmp_path / "result.json"
    code, said, _ = run("bench", "micro", name, photos[0].parent, "--quick", "--json", path)

    written = json.loads(path.read_text())
    assert code == 0
    assert row in said
    assert written["command"] == f"bench micro {name}"
    assert all(one["measured"] for one in written["rows"])
    assert {absent for one in written["rows"] for absent in one["absent"]} <= {"simplejpeg"}


def test_help_says_what_each_measures(run: Run) -> None:
    assert all(f" {name}: " in run("bench", "micro", "--help")[1] for name in BENCHMARKS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["speed"], "NAME must be one of decode, overhead, scale, got 'speed'"),
        (["scale", "--seconds", "0"], "seconds must be greater than 0, got 0.0"),
        (["scale", "--rounds", "0"], "rounds must be greater than 0, got 0"),
    ],
)
def test_what_cannot_be_measured_is_refused(run: Run, arguments: list[str], message: str) -> None:
    code, _, error = run("bench", "micro", *arguments)

    assert code == 2
    assert message in error
