"""Recipe: an ordered tuple of operations, its stages, its presets and its draws."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from gpu_aug.draws import Draws, uniforms
from gpu_aug.errors import RecipeError
from gpu_aug.ops.colour import ColorJitter, Normalize
from gpu_aug.ops.geometry import CenterCrop, HorizontalFlip, RandomResizedCrop, Resize
from gpu_aug.ops.operation import Operation
from gpu_aug.windows import compose_windows

FORMAT_VERSION = 1
PRESETS = ("imagenet_eval", "imagenet_train", "imagenet_train_jitter")

_ANY_SIZE = np.array([[211, 307], [503, 401]])  # two sizes that no operation keeps by chance


@dataclass(frozen=True, init=False)
class Recipe:
    """What happens to every image, in order.

    The leading size operations (crops and at most one resampling) are the decode stage: they
    are carried out while decoding. They must give every image one size. The rest is the batch
    stage, which an engine carries out.

    Raises:
        RecipeError: No operations, something that is not an operation, a decode stage that
            leaves images of different sizes, an operation that does not fit that size, or
            ColorJitter after Normalize.
    """

    operations: tuple[Operation, ...]

    def __init__(self, operations: Sequence[Operation]) -> None:
        object.__setattr__(self, "operations", tuple(operations))
        for place, operation in enumerate(self.operations):
            if not isinstance(operation, Operation):
                raise RecipeError(
                    f"operation {place} of the recipe must be an Operation such as "
                    f"HorizontalFlip(), got {operation!r}"
                )
        kinds = [type(operation) for operation in self.operations]
        if Normalize in kinds and ColorJitter in kinds[kinds.index(Normalize) :]:
            raise RecipeError(
                "ColorJitter must come before Normalize, got it after: it needs values in [0, 1], "
                "so change their order"
            )
        self.size  # noqa: B018 - checks that there is one size

    @classmethod
    def imagenet_train(cls, size: int = 224) -> Self:
        """RandomResizedCrop, HorizontalFlip, Normalize."""
        return cls([RandomResizedCrop(size), HorizontalFlip(), Normalize()])

    @classmethod
    def imagenet_train_jitter(cls, size: int = 224) -> Self:
        """As ``imagenet_train`` with ColorJitter on 80 % of the images."""
        jitter = ColorJitter(0.4, 0.4, 0.4, 0.1, p=0.8)
        return cls([RandomResizedCrop(size), HorizontalFlip(), jitter, Normalize()])

    @classmethod
    def imagenet_eval(cls, size: int = 224, resize: int = 256) -> Self:
        """Resize of the shorter side, CenterCrop, Normalize; nothing is random."""
        return cls([Resize(resize), CenterCrop(size), Normalize()])

    @classmethod
    def preset(cls, name: str) -> Self:
        """Return the preset called ``name``, one of PRESETS, at its usual size."""
        if name not in PRESETS:
            raise RecipeError(
                f"preset must be one of {', '.join(PRESETS)}, got {name!r}: "
                "choose one, or load a recipe file with Recipe.load(path)"
            )
        recipe: Self = getattr(cls, name)()
        return recipe

    @cached_property
    def decode_operations(self) -> tuple[Operation, ...]:
        """The leading crops, at most one operation that resamples, and at most one crop after it."""
        resampled = False
        for place, operation in enumerate(self.operations):
            resamples = isinstance(operation, Resize | RandomResizedCrop)
            if not (resamples or isinstance(operation, CenterCrop)) or (resamples and resampled):
                return self.operations[:place]
            if resampled:
                return self.operations[: place + 1]
            resampled = resamples
        return self.operations

    @property
    def batch_operations(self) -> tuple[Operation, ...]:
        """The operations after the decode stage."""
        return self.operations[len(self.decode_operations) :]

    @cached_property
    def decode_size(self) -> tuple[int, int]:
        """(height, width) of every image after the decode stage."""
        sizes = _ANY_SIZE
        for operation in self.decode_operations:
            sizes = operation.output_size(sizes)
        if (sizes[0] != sizes[1]).any() or not self.decode_operations:
            given = ", ".join(type(operation).__name__ for operation in self.operations[:3])
            raise RecipeError(
                "a recipe must begin by giving all images one size, got "
                f"[{given}{', ...' if len(self.operations) > 3 else ''}]: begin with "
                "RandomResizedCrop(size), Resize((height, width)), CenterCrop(size), or "
                "Resize(size) then CenterCrop(size)"
            )
        return int(sizes[0, 0]), int(sizes[0, 1])

    @property
    def antialias(self) -> bool:
        """Whether the decode stage's resampling is antialiased."""
        return all(getattr(op, "antialias", True) for op in self.decode_operations)

    @cached_property
    def size(self) -> tuple[int, int]:
        """(height, width) of the final images."""
        sizes = np.array([self.decode_size])
        for operation in self.batch_operations:
            sizes = operation.output_size(sizes)
        return int(sizes[0, 0]), int(sizes[0, 1])

    def draw(
        self, seed: int, epoch: int, indices: NDArray[np.int64], sizes: NDArray[np.int64]
    ) -> Draws:
        """Draw the parameters of every operation for a batch of B samples.

        A sample's draw depends on (seed, epoch, its index, its size) and on nothing else.

        Args:
            seed: Not negative.
            epoch: Not negative.
            indices: Sample indices in the dataset, int64 [B].
            sizes: Height and width of the source images after EXIF orientation, int64 [B, 2].
        """
        numbers = uniforms(seed, epoch, indices, [op.num_uniforms for op in self.operations])
        source_sizes = sizes = np.asarray(sizes, np.int64).reshape(-1, 2)
        drawn = []
        for operation, u in zip(self.operations, numbers, strict=True):
            drawn.append(operation.draw(u, sizes))
            sizes = operation.output_size(sizes)
        num_decode = len(self.decode_operations)
        windows = compose_windows(
            drawn[:num_decode],
            source_sizes,
            canvas=self.decode_size,
            antialias=self.antialias,
        )
        return Draws(windows, tuple(drawn[num_decode:]))

    def to_dict(self) -> dict[str, Any]:
        """Return the recipe as plain values, ready for JSON."""
        return {
            "version": FORMAT_VERSION,
            "operations": [operation.to_dict() for operation in self.operations],
        }

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> Self:
        """Build the recipe that ``to_dict`` described.

        Raises:
            RecipeError: Another version, an unknown operation, or a bad field.
        """
        if not isinstance(saved, dict) or saved.get("version") != FORMAT_VERSION:
            got = saved.get("version") if isinstance(saved, dict) else type(saved).__name__
            raise RecipeError(
                f"recipe version must be {FORMAT_VERSION}, got {got!r}: "
                "write the recipe again with Recipe.save(path)"
            )
        operations = saved.get("operations")
        if not isinstance(operations, list):
            raise RecipeError(
                f"recipe operations must be a list of operations, got {operations!r}: "
                "write the recipe again with Recipe.save(path)"
            )
        return cls([Operation.from_dict(operation) for operation in operations])

    def save(self, path: str | PathLike[str]) -> None:
        """Write the recipe to a JSON file."""
        Path(path).write_text(json.dumps(self.to_dict(), indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a recipe that ``save`` wrote.

        Raises:
            RecipeError: The file is missing, not JSON, or not a recipe.
        """
        try:
            saved = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RecipeError(
                f"recipe file {str(path)!r} cannot be read ({error}): give a JSON file written "
                f"by Recipe.save, or a preset: {', '.join(PRESETS)}"
            ) from error
        return cls.from_dict(saved)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 in hex over the canonical JSON, format version included."""
        canonical = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()
