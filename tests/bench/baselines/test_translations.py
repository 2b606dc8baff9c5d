"""What a baseline makes of an operation has the operation's numbers."""

from collections.abc import Sequence

import albumentations
import kornia
import pytest
from torchvision.transforms import v2

from bench.baselines.translations import _translate
from gpu_aug import (
    CenterCrop,
    ColorJitter,
    HorizontalFlip,
    Normalize,
    Operation,
    RandomResizedCrop,
    Recipe,
)

CASES: list[tuple[Operation, Sequence[str]]] = [
    (
        RandomResizedCrop(32, scale=(0.3, 0.7), ratio=(0.9, 1.2)),
        ["size=(32, 32)", "scale=(0.3, 0.7)", "(0.9, 1.2)"],
    ),
    (HorizontalFlip(0.3), ["p=0.3"]),
    (
        ColorJitter(0.1, 0.2, 0.3, 0.4, p=0.6),
        [
            *("brightness=(0.9, 1.1)", "contrast=(0.8, 1.2)", "saturation=(0.7, 1.3)"),
            *("hue=(-0.4, 0.4)", "p=0.6"),
        ],
    ),
    (CenterCrop(24), ["size=(24, 24)"]),
    (Normalize((0.1, 0.2, 0.3), (0.4, 0.5, 0.7)), ["0.1", "0.2", "0.3", "0.4", "0.5", "0.7"]),
]


@pytest.mark.parametrize(
    ("operation", "numbers"), CASES, ids=[type(operation).__name__ for operation, _ in CASES]
)
def test_a_translation_has_the_numbers_of_the_operation(
    operation: Operation, numbers: Sequence[str]
) -> None:
    """As the importers of torchvision's and Albumentations' pipelines read them, and as Kornia prints them."""
    [torchvisions] = _translate([operation], v2, "torchvision")
    [albumentationss] = _translate([operation], albumentations, "albumentations")
    [kornias] = _translate([operation], kornia.augmentation, "kornia")
    read = (Recipe.from_torchvision(torchvisions), Recipe.from_albumentations(albumentationss))

    for text in (*map(repr, read), repr(kornias)):
        assert [number for number in numbers if number not in text] == []
