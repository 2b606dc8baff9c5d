"""Recipes whose images have several sizes until an operation after decoding gives them one."""

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torchvision.transforms.v2.functional as tv
from PIL import Image

from dali_pipes import Execution
from gpu_aug import CenterCrop, HorizontalFlip, RandomResizedCrop, Recipe, RecipeError, Resize
from readers import Dataset
from tests.support.loaders import (
    draw_canvases_in_dali,
    images_by_index,
    loader_maker,
    rows_of,
    write_images,
)

NUM_IMAGES = 13
# Flipped before the crop: the decode stage makes images of several sizes.
RAGGED = Recipe([Resize(40), HorizontalFlip(1), CenterCrop(36)])
# Nothing is done while decoding: whole images, of the files' own sizes.
WHOLE = Recipe([HorizontalFlip(), RandomResizedCrop(24)])
DECODERS = ["cpu", pytest.param("dali", marks=pytest.mark.needs_dali)]
ENGINES = ["kornia", "albumentations", "fused"]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory, jpeg: Callable[..., bytes]) -> Dataset:
    """Thirteen images of different sizes, wide and tall; the sixth is cut short."""
    images = [jpeg(40 + 3 * n, 90 - 2 * n, seed=n) for n in range(NUM_IMAGES)]
    images[5] = images[5][: len(images[5]) // 2]
    return write_images(tmp_path_factory.mktemp("sizes"), images)


load = loader_maker(
    dtype=torch.float32, seed=3, last_batch="partial", on_bad_sample="skip", engine="kornia"
)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("decoder", DECODERS)
def test_equals_torchvision(dataset: Dataset, decoder: str, engine: str) -> None:
    """Resize, flip and crop of files of any size are torchvision's on the whole picture, to the bit."""
    images = images_by_index(
        load(dataset, RAGGED, decoder=decoder, engine=engine, dtype=torch.uint8)
    )

    assert sorted(images) == [index for index in range(NUM_IMAGES) if index != 5]
    for index, image in images.items():
        data = dataset.fetch([index])[0].image
        with Image.open(io.BytesIO(data)) as opened:
            picture = torch.from_numpy(np.array(opened)).permute(2, 0, 1)
        resized = tv.resize(picture, 40, antialias=True)
        assert torch.equal(tv.center_crop(tv.hflip(resized), [36, 36]), image)
        assert not torch.equal(tv.center_crop(resized, [36, 36]), image)


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 1},
        {"batch_size": 13, "num_threads": 2, "execution": Execution(prefetch=5)},
        pytest.param({"decoder": "dali", "batch_size": 3}, marks=pytest.mark.needs_dali),
    ],
    ids=str,
)
@pytest.mark.parametrize("policy", ["skip", "replace"])
def test_settings_do_not_matter(dataset: Dataset, options: dict[str, Any], policy: str) -> None:
    """Batch size, threads, prefetch and decoder do not change a bit, nor does a bad sample beside it."""
    usual = list(load(dataset, WHOLE, on_bad_sample=policy))
    other = list(load(dataset, WHOLE, on_bad_sample=policy, **options))

    for name in ("indices", "images"):
        assert torch.equal(*(torch.cat([getattr(b, name) for b in x]) for x in (usual, other)))
    another_seed = images_by_index(load(dataset, WHOLE, on_bad_sample=policy, seed=4))
    shared = [(image, another_seed[i]) for i, image in rows_of(usual) if i in another_seed]
    assert not all(torch.equal(image, other_image) for image, other_image in shared)


@pytest.mark.needs_dali
@pytest.mark.parametrize("recipe", [RAGGED, WHOLE], ids=["ragged", "whole"])
def test_canvases_of_several_sizes_from_the_graph(
    dataset: Dataset, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The way a GPU takes, canvas by canvas out of DALI's graph, gives the same within its tolerance."""
    expected = images_by_index(load(dataset, recipe))
    draw_canvases_in_dali(monkeypatch)
    actual = images_by_index(load(dataset, recipe, decoder="dali"))

    assert actual.keys() == expected.keys()
    for index, image in actual.items():
        gap = (image - expected[index]).abs() * 255
        assert gap[:, 3:-3, 3:-3].max() <= 1.01
        assert gap.max() <= 30  # noise, along a sharp border
    others = [image for index, image in actual.items() if index > 0]
    assert max((image - expected[0]).abs().max() * 255 for image in others) > 50


def test_sizes_that_stay_different_are_refused(dataset: Dataset) -> None:
    """A recipe that gives the images no common size is refused before the run, with a way out."""
    with pytest.raises(RecipeError, match=r"different sizes and make no batch: add RandomResized"):
        load(dataset, Recipe([Resize(40), HorizontalFlip()]))


def test_explain(dataset: Dataset) -> None:
    """explain() says that decoding gives several sizes, and how far they reach."""
    text = load(dataset, RAGGED).explain()

    assert "decode stage: Resize" in text
    assert "-> uint8 of several sizes" in text
    assert "-> float32 [3, 36, 36]" in text
