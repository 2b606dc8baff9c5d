"""Where a transform mixes images it mixes their labels, or refuses."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from gpu_aug import (
    CutMix,
    MixUp,
    Mosaic,
    Operation,
    Recipe,
    RecipeError,
    Resize,
    TargetsError,
    apply,
)

NUM = 6
ITEMS = [(np.full((16, 16, 3), 40 * number, np.uint8), number) for number in range(NUM)]
IMAGES = [image for image, _ in ITEMS]
MIXING = {
    "MixUp": MixUp(num_classes=NUM),
    "CutMix": CutMix(num_classes=NUM),
    "Mosaic": Mosaic(num_classes=NUM),
}


def transform_of(operation: Operation) -> Any:
    return Recipe([Resize((16, 16)), operation]).transform(seed=3)


def check(images: torch.Tensor, labels: torch.Tensor) -> None:
    """Each picture has one gray level: the mean of a mixture tells what it is mixed of."""
    levels = images.double().mean(dim=(1, 2, 3)) * 255 / 40
    assert (labels.dtype, labels.shape) == (torch.float32, (NUM, NUM))
    assert (levels - torch.arange(NUM)).abs().max() > 0.2, "nothing was mixed"
    torch.testing.assert_close(
        labels.double() @ torch.arange(NUM).double(), levels, atol=0.02, rtol=0
    )


WAYS: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "collate": lambda transform: transform.collate(ITEMS),
    "a list": lambda transform: transform(IMAGES, list(range(NUM))),
    "a tensor": lambda transform: transform(
        torch.from_numpy(np.stack(IMAGES)).permute(0, 3, 1, 2), torch.arange(NUM)
    ),
    "soft labels": lambda transform: transform(IMAGES, torch.eye(NUM)),
    "workers": lambda transform: next(
        iter(DataLoader(ITEMS, NUM, collate_fn=transform.collate, num_workers=1))
    ),
}


@pytest.mark.parametrize("operation", MIXING.values(), ids=MIXING)
@pytest.mark.parametrize("way", WAYS)
def test_labels_say_what_images_are_mixed_of(way: str, operation: Operation) -> None:
    check(*WAYS[way](transform_of(operation)))


def test_they_are_those_of_apply_with_the_same_draws() -> None:
    recipe = Recipe([Resize((16, 16)), CutMix(num_classes=NUM)])
    _, labels = recipe.transform(seed=3)(IMAGES, range(NUM), indices=range(NUM))
    samples = [{"image": image, "label": label} for image, label in ITEMS]
    wanted = apply(recipe, samples, seed=3, indices=range(NUM))
    assert torch.equal(labels, torch.stack([one["label"] for one in wanted]))


def test_what_stands_behind_the_label_is_left_alone() -> None:
    items = [(image, label, f"name {label}") for image, label in ITEMS]
    _, labels, names = transform_of(MixUp(num_classes=NUM)).collate(items)
    assert labels.shape == (NUM, NUM)
    assert list(names) == [f"name {label}" for label in range(NUM)]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda mix: mix.collate(IMAGES), "must get the labels of images that the recipe mixes"),
        (lambda mix: mix(IMAGES), r"call transform\(images, labels\)"),
        (lambda mix: mix(torch.zeros(2, 3, 16, 16)), r"call transform\(images, labels\)"),
        (
            lambda mix: mix({"image": IMAGES, "label": [0]}),
            "call it with a list of images and their labels",
        ),
        (lambda mix: mix.collate([{"image": IMAGES[0]}] * 2), r"or return \(image, label\)"),
        (lambda mix: mix.collate([(IMAGES[0], "cat")] * 2), "labels must be whole numbers"),
        (lambda mix: mix.collate([(IMAGES[0], 0.5)] * 2), "labels must be whole numbers"),
        (lambda mix: mix.collate([(IMAGES[0], -1)] * 2), "2 of 2 labels of the batch are -1"),
        (lambda _: transform_of(MixUp())(IMAGES, [0] * NUM), r"as in MixUp\(num_classes=1000\)"),
        (lambda mix: mix(IMAGES[0], 1), "call it with a list|labels are for batches"),
    ],
)
def test_labels_that_cannot_be_mixed_are_refused(call: Any, said: str) -> None:
    with pytest.raises((RecipeError, TargetsError), match=said):
        call(transform_of(MixUp(num_classes=NUM)))
