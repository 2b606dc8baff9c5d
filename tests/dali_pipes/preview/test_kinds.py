"""Pictures of other images than RGB of 8 bits: gray, 16 bits, many channels, floats, pairs, depth and flow."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
import torch
from numpy.typing import NDArray
from PIL import Image

from dali_pipes import Flow, ImageOptions, LoaderError, NumberMap
from dali_pipes.preview import preview_engines, preview_images, take_decodable_samples
from dali_pipes.preview.pictures import show_values
from gpu_aug import CenterCrop, HorizontalFlip, Recipe
from readers import open_dataset
from tests.dali_pipes.preview.test_images import pictures, texts

SIZE = (96, 100)
FLIP = Recipe([CenterCrop(SIZE), HorizontalFlip(p=1.0)])
RNG = np.random.default_rng(0)


def tar_of(path: Path, samples: list[dict[str, bytes]]) -> Path:
    from tests.support.tars import write_samples

    write_samples(path, {f"{number:03}": sample for number, sample in enumerate(samples)})
    return path


def encoded(array: NDArray[Any], ending: str) -> bytes:
    buffer = io.BytesIO()
    if ending == "npy":
        np.save(buffer, array)
    elif ending == "tif":
        tifffile.imwrite(buffer, array, planarconfig="contig", photometric="minisblack")
    else:
        Image.fromarray(array).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("array", "ending", "options", "expected", "words"),
    [
        (
            RNG.integers(0, 256, SIZE, np.uint8),
            "png",
            {"images": ImageOptions(channels=1)},
            lambda array: np.repeat(array[..., None], 3, axis=2),
            "96 x 100 px",
        ),
        (
            RNG.integers(0, 65536, SIZE, np.uint16),
            "png",
            {"images": ImageOptions(channels=1, depth=16)},
            lambda array: np.repeat(np.rint(array[..., None] / 257), 3, axis=2),
            "96 x 100 px",
        ),
        (
            RNG.integers(0, 65536, (*SIZE, 5), np.uint16),
            "tif",
            {"images": ImageOptions(channels=5, depth=16)},
            lambda array: np.rint(array[..., :3] / 257),
            "channels 1 to 3 of 5 as red,",
        ),
        (
            np.linspace(-3, 5, SIZE[0] * SIZE[1], dtype=np.float32).reshape(*SIZE, 1),
            "npy",
            {"images": ImageOptions(channels=1, depth="float32", fields="npy")},
            lambda array: np.repeat(np.rint((array + 3) / 8 * 255), 3, axis=2),
            "black -3, white 5",
        ),
    ],
    ids=["gray", "16 bits", "five channels", "floats"],
)
def test_other_kinds(
    array: NDArray[Any], ending: str, options: Any, expected: Any, words: str, tmp_path: Path
) -> None:
    """The original and its mirror image, as they were made; the words say how numbers became colours."""
    data = open_dataset(tar_of(tmp_path / "a.tar", [{ending: encoded(array, ending)}]))

    page = preview_images(data, FLIP, [0], epochs=[0], **options)

    original, mirrored = pictures(page)
    assert np.abs(original - expected(array)).max() <= 1
    assert np.abs(mirrored - expected(array)[:, ::-1]).max() <= 1
    assert np.abs(mirrored - expected(array)).mean() > 1
    assert " ".join(texts(page)).count(words) >= 2


def test_pairs_and_maps_have_rows(tmp_path: Path) -> None:
    """Every image of a sample beside its original, and below them depth and flow; unknown numbers are red."""
    left, right = (RNG.integers(0, 256, (*SIZE, 3), np.uint8) for _ in range(2))
    depth = np.full(SIZE, 512, np.uint16)
    depth[:, 50:] = 1024
    depth[:10] = 0
    flow = np.zeros((*SIZE, 2), np.float32)
    flow[40:] = (3, 4)
    sample = {
        "left.png": encoded(left, "png"),
        "right.png": encoded(right, "png"),
        "depth.png": encoded(depth, "png"),
        "flow.npy": encoded(flow, "npy"),
    }
    data = open_dataset(tar_of(tmp_path / "a.tar", [sample]))
    options: dict[str, Any] = {
        "images": ImageOptions(
            fields=["left.png", "right.png"],
            maps={"depth": NumberMap("depth.png", scale=256), "flow": Flow("flow.npy")},
        ),
    }

    page = preview_images(data, FLIP, [0], epochs=[0], **options)

    first, first_shown, second, second_shown, of_depth, of_flow = pictures(page)
    assert np.array_equal(first, left)
    assert np.array_equal(second, right)
    assert np.array_equal(first_shown, left[:, ::-1])
    assert np.array_equal(second_shown, right[:, ::-1])
    assert (of_depth[10:, :50] == 255).all()  # 4, which is mirrored to the left; beside it 2
    assert (of_depth[10:, 50:] == 0).all()
    assert (of_depth[:10] == (150, 0, 0)).all()
    assert (of_flow[40:] == 255).all()
    assert (of_flow[:40] == 0).all()
    said = " | ".join(texts(page))
    assert "black 2, white 4, red is unknown" in " ".join(texts(page))
    assert "length of the vectors," in said
    preview = preview_engines(data, FLIP, [0], **options)
    assert len(pictures(preview)) == 2 + 3 * 4
    assert all("gives one RGB image of 8 bits" in reason for reason in preview.missing.values())


def test_samples_of_another_kind_are_not_sound(tmp_path: Path) -> None:
    """One sentence each: another number of channels, another depth; a field that all lack is refused."""
    gray = encoded(RNG.integers(0, 256, SIZE, np.uint8), "png")
    data = open_dataset(tar_of(tmp_path / "a.tar", [{"png": gray}]))
    for images, words in (
        (ImageOptions(channels=5), "channels=5"),
        (ImageOptions(channels=1, depth=16), "depth=16"),
    ):
        sound, [fault] = take_decodable_samples(data, most=1, images=images)
        assert not sound
        assert words in fault
    assert len(take_decodable_samples(data, most=1, images=ImageOptions(channels=1))[0]) == 1
    with pytest.raises(LoaderError, match=r"the field 'left\.png' is missing"):
        take_decodable_samples(data, most=1, images=ImageOptions(fields=["left.png"]))


def test_numbers_that_are_all_alike_or_unknown() -> None:
    """Gray, or red; never a division by nothing."""
    alike, words = show_values(torch.full((1, 4, 5), 7.0), stretched=True)
    assert np.ptp(alike) == 0
    assert words == "black 7, white 7"
    unknown, words = show_values(torch.full((1, 4, 5), torch.nan), stretched=True)
    assert (unknown == (150, 0, 0)).all()
    assert words == "red is unknown"
