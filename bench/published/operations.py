"""Write an operation for several libraries, and list those that several benchmarks share."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gpu_aug as ga
from bench.output.errors import BenchError
from gpu_aug import Operation, Recipe

Make = Callable[[ModuleType], Any]
Work = Callable[[], object]
Pictures = NDArray[np.uint8]

# Imported by `Op.make` only, so that a library that is not installed costs only its own rows.
_MODULES = {
    "torchvision": "torchvision.transforms.v2",
    "albumentations": "albumentations",
    "kornia": "kornia.augmentation",
}


@dataclass(frozen=True)
class Op:
    """One operation, written for several libraries.

    Attributes:
        name: Name in the table.
        ours: The operation, or several, of this package; None for those that `Recipe.from_albumentations` makes.
        torchvision: A function that makes the operation, given torchvision.transforms.v2; None if it lacks the operation.
        albumentations: A function that makes the operation, given the module albumentations; None likewise.
        kornia: A function that makes the operation, given kornia.augmentation; None likewise.
    """

    name: str
    ours: Operation | tuple[Operation, ...] | None
    torchvision: Make | None = None
    albumentations: Make | None = None
    kornia: Make | None = None

    @property
    def recipe(self) -> Recipe:
        """Our operations as a recipe."""
        if self.ours is None:
            return Recipe.from_albumentations(self.make("albumentations"))
        return Recipe(self.ours if isinstance(self.ours, tuple) else [self.ours])

    def make(self, library: str) -> Any:
        """Return the operation of a library: "torchvision", "albumentations" or "kornia".

        Raises:
            BenchError: The library lacks the operation.
        """
        make: Make | None = getattr(self, library)
        if make is None:
            raise BenchError(f"{library} has no {self.name}: leave the library out of this row")
        return make(import_module(_MODULES[library]))


def albumentations_work(op: Op, pictures: Iterable[Pictures]) -> Work:
    """Return a call of Albumentations' operation on each array; contiguous results, so that no view counts as done."""
    transform = op.make("albumentations")
    return lambda: [np.ascontiguousarray(transform(image=one)["image"]) for one in pictures]


OPS = (
    Op(
        "HorizontalFlip",
        ga.HorizontalFlip(p=1.0),
        lambda v2: v2.RandomHorizontalFlip(p=1.0),
        lambda alb: alb.HorizontalFlip(p=1.0),
        lambda kor: kor.RandomHorizontalFlip(p=1.0),
    ),
    Op(
        "Grayscale",
        ga.Grayscale(p=1.0),
        lambda v2: v2.Grayscale(3),
        lambda alb: alb.ToGray(p=1.0),
        lambda kor: kor.RandomGrayscale(p=1.0),
    ),
    Op(
        "Posterize 4",
        ga.Posterize(4, p=1.0),
        lambda v2: v2.RandomPosterize(4, p=1.0),
        lambda alb: alb.Posterize(4, p=1.0),
        lambda kor: kor.RandomPosterize((4, 4), p=1.0),
    ),
    Op(
        "Solarize",
        ga.Solarize(0.5, p=1.0),
        lambda v2: v2.RandomSolarize(128, p=1.0),
        lambda alb: alb.Solarize((0.5, 0.5), p=1.0),
        lambda kor: kor.RandomSolarize((0.5, 0.5), (0.0, 0.0), p=1.0),
    ),
    Op(
        "Equalize",
        ga.Equalize(p=1.0),
        lambda v2: v2.RandomEqualize(p=1.0),
        lambda alb: alb.Equalize(p=1.0),
        lambda kor: kor.RandomEqualize(p=1.0),
    ),
    Op(
        "Invert",
        ga.Invert(p=1.0),
        lambda v2: v2.RandomInvert(p=1.0),
        lambda alb: alb.InvertImg(p=1.0),
        lambda kor: kor.RandomInvert(p=1.0),
    ),
    Op(
        "Erasing",
        ga.RandomErasing(p=1.0),
        lambda v2: v2.RandomErasing(p=1.0),
        lambda alb: alb.Erasing(p=1.0),
        lambda kor: kor.RandomErasing(p=1.0),
    ),
)
