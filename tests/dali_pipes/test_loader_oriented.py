"""Oriented boxes in a loader: read from JSON and from torchvision's tensors, moved, and handed over."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional as tv

from dali_pipes import BadSampleError
from dali_pipes.integrations.torch_dataset import from_torch
from dali_pipes.preview import take_decodable_samples
from dali_pipes.preview.pictures import annotate, fit
from gpu_aug import BoxParams, HorizontalFlip, Recipe, Resize, Targets
from readers import Dataset, open_dataset
from tests.support.loaders import loader_maker

SIZE = (60, 80)
BOX = [40.0, 30.0, 30.0, 12.0, 20.0]  # centre, width, height, angle
FORMATS = ("xyxy", "xywh", "cxcywh", "xywhr", "cxcywhr", "xyxyxyxy")
OPERATIONS = [Resize(SIZE), HorizontalFlip(1)]

load = loader_maker(seed=0, dtype=torch.float32, shuffle="none", batch_size=2)


def given(form: str) -> tv_tensors.BoundingBoxes:
    """The box in one of torchvision's rotated formats."""
    box = tv_tensors.BoundingBoxes([BOX], format="CXCYWHR", canvas_size=SIZE, clamping_mode=None)
    return tv.convert_bounding_box_format(box, new_format=form.upper())


@pytest.fixture
def dataset(tmp_path: Path, jpeg: Callable[..., bytes]) -> Dataset:
    """Two images, of which the first has a box as readers of oriented boxes write it."""
    for name in ("a", "b"):
        (tmp_path / f"{name}.jpg").write_bytes(jpeg(*SIZE))
    content = {"boxes": given("xyxyxyxy").tolist(), "box_format": "xyxyxyxy", "labels": [3]}
    (tmp_path / "a.json").write_text(json.dumps(content))
    return open_dataset(tmp_path)


@pytest.mark.parametrize(
    ("form", "normalized"),
    [*((form, False) for form in FORMATS), *((form, True) for form in FORMATS if form[-1] != "r")],
)
def test_bounding_boxes_are_torchvisions(dataset: Dataset, form: str, normalized: bool) -> None:
    """In every format, a batch gives the tensors that torchvision's kernel gives, with format and size."""
    recipe = Recipe(OPERATIONS, boxes=BoxParams(form, normalized))  # type: ignore[arg-type]
    is_upright = form in ("xyxy", "xywh", "cxcywh")
    loader = load(dataset, recipe)
    if is_upright:
        with pytest.warns(UserWarning, match=r'BoxParams\("cxcywhr"\) keeps their angles'):
            batch = next(iter(loader))
    else:
        batch = next(iter(loader))

    boxes, none = batch.bounding_boxes()

    expected = tv.horizontal_flip(given("xyxyxyxy" if is_upright else form))
    if is_upright:
        corners = expected.reshape(4, 2)
        around = torch.cat([corners.amin(0), corners.amax(0)])[None]
        expected = tv.convert_bounding_box_format(around, old_format="xyxy", new_format=form)
    torch.testing.assert_close(boxes.as_subclass(torch.Tensor), expected.as_subclass(torch.Tensor))
    assert boxes.dtype == torch.float32
    assert (boxes.format.name.lower(), tuple(boxes.canvas_size)) == (form, SIZE)
    assert none.shape == (0, expected.shape[1])
    assert batch.box_labels[0].tolist() == [3]
    assert "box_params" not in batch.to_dict()


@pytest.mark.parametrize("form", ["xywhr", "cxcywhr", "xyxyxyxy"])
def test_torchvisions_rotated_tensors_are_read(form: str) -> None:
    """The items of a torch dataset may have boxes in any rotated format."""
    image = Image.new("RGB", SIZE[::-1])
    items = [(image, {"boxes": given(form), "labels": torch.tensor([3])})] * 2
    recipe = Recipe(OPERATIONS, boxes=BoxParams("cxcywhr"))

    [boxes, _] = next(iter(load(from_torch(items), recipe))).boxes  # type: ignore[arg-type]

    expected = tv.horizontal_flip(given("cxcywhr")).as_subclass(torch.Tensor)
    torch.testing.assert_close(boxes, expected)


def test_boxes_that_do_not_fit_the_recipe_are_named(
    tmp_path: Path, jpeg: Callable[..., bytes]
) -> None:
    """Corners without their format in a recipe of axis-aligned boxes are an error that says what to do."""
    (tmp_path / "a.jpg").write_bytes(jpeg(*SIZE))
    (tmp_path / "a.json").write_text(json.dumps({"boxes": [[1] * 8], "labels": [0]}))

    with pytest.raises(
        BadSampleError, match=r"must have 4 numbers .* got 8: .*BoxParams\('xyxyxyxy'\)"
    ):
        list(load(open_dataset(tmp_path), Recipe(OPERATIONS), batch_size=1))


def test_checking_samples_says_nothing_of_formats(dataset: Dataset) -> None:
    """The boxes are not used, whatever recipe previews have later."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        samples, faults = take_decodable_samples(dataset, most=2)  # type: ignore[arg-type]
    assert (len(samples), faults) == (2, [])


def drawn_pixels(picture: np.ndarray) -> np.ndarray:
    rows, columns = np.nonzero(np.ptp(picture, axis=2))  # coloured, not gray
    return np.stack([columns + 0.5, rows + 0.5], axis=1)


@pytest.mark.parametrize("form", ["cxcywhr", "xyxyxyxy"])
def test_previews_draw_oriented_boxes(form: str) -> None:
    """All that is drawn lies along the sides, and each corner is reached; the axis-aligned box has pixels elsewhere."""
    picture = np.full((*SIZE, 3), 128, np.uint8)
    targets: Any = Targets(boxes=given(form), box_labels=[1])

    page = np.asarray(fit(picture, SIZE, targets, Recipe(OPERATIONS, boxes=BoxParams(form))))  # type: ignore[arg-type]

    corners = given("xyxyxyxy").reshape(4, 2).as_subclass(torch.Tensor).numpy()

    def farthest(pixels: np.ndarray) -> float:
        start, side = corners[:, None], (np.roll(corners, -1, axis=0) - corners)[:, None]
        share = ((pixels - start) * side).sum(2) / (side**2).sum(2)
        nearest = start + np.clip(share, 0, 1)[..., None] * side
        return float(np.linalg.norm(pixels - nearest, axis=2).min(axis=0).max())

    pixels = drawn_pixels(page)
    assert farthest(pixels) < 2.5
    assert np.linalg.norm(pixels - corners[:, None], axis=2).min(axis=1).max() < 2
    upright = np.concatenate([corners.min(0), corners.max(0)])[None]
    assert farthest(drawn_pixels(annotate(picture, boxes=upright))) > 5
