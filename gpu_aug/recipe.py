"""Recipe: an ordered tuple of operations, with its stages and its draws."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_aug.argument_errors import FriendlyArgumentErrors, friendly_arguments
from gpu_aug.draw_operations import draw_operations, slot_numbers
from gpu_aug.draws import Draws, find_partners
from gpu_aug.errors import RecipeError
from gpu_aug.expected_recipe import way_to_recipe
from gpu_aug.files.document import write_document
from gpu_aug.ops.distributions.uniform import Uniforms
from gpu_aug.ops.foreign.wrapping import as_operation
from gpu_aug.ops.operation import Operation
from gpu_aug.ops.temporal import Temporal, check_temporal
from gpu_aug.output import checked_output
from gpu_aug.resampling.crops import compose_crops
from gpu_aug.stages import check_range, num_decoded, num_single, possible_sizes
from gpu_aug.targets.targets import BoxParams, KeypointParams, MaskParams

# Of recipe files and fingerprints; another number refuses all earlier ones.
FORMAT_VERSION = 1


@dataclass(frozen=True, init=False)
class Recipe(metaclass=FriendlyArgumentErrors):
    """An ordered list of operations, applied to every image.

    The leading size operations (crops and at most one that resamples) are the decode stage, which is carried out while
    decoding. The other operations are the batch stage, which an engine carries out. Temporal operations belong to neither:
    they decide which frames of clips are decoded.

    Args:
        operations: At least one operation; a list or tuple among them, such as letterbox(640), is expanded.
        boxes: How boxes are read, dropped and returned; None means BoxParams().
        keypoints: How keypoints are read, dropped and returned; None means KeypointParams().
        masks: Which classes of masks a mirror exchanges; None exchanges nothing, see MaskParams.
        output: Conversions of an imported pipeline, such as ToTensor, which decide the type of the images that `transform`
            returns; see gpu_aug.output. Recipes that differ only in ``output`` are equal and have one fingerprint, because a
            Loader has its own ``dtype``.

    Raises:
        RecipeError: There are no operations, a step is not an operation, an operation does not fit the size of its input, or one
            that needs values in [0, 1] comes after Normalize.

    Example:
        >>> recipe = Recipe([RandomResizedCrop(224), HorizontalFlip(), Normalize()])
        >>> recipe.size
        (224, 224)
        >>> recipe == Recipe.imagenet_train(size=224)
        True
    """

    operations: tuple[Operation, ...]
    boxes: BoxParams | None
    keypoints: KeypointParams | None
    masks: MaskParams | None
    output: tuple[str, ...] = field(repr=False, compare=False)

    def __init__(
        self,
        operations: Sequence[Any],
        *,
        boxes: BoxParams | None = None,
        keypoints: KeypointParams | None = None,
        masks: MaskParams | None = None,
        output: Sequence[str] = (),
    ) -> None:
        if not isinstance(operations, Sequence) or isinstance(operations, str) or not operations:
            raise RecipeError(
                f"a recipe must be a list of at least one operation, {way_to_recipe(operations)}"
            )
        object.__setattr__(
            self,
            "operations",
            tuple(
                as_operation(operation, f"operation {number} of the recipe")
                for number, operation in enumerate(_flat(operations))
            ),
        )
        for name, given, params in (
            ("boxes", boxes, BoxParams),
            ("keypoints", keypoints, KeypointParams),
            ("masks", masks, MaskParams),
        ):
            if given is not None and not isinstance(given, params):
                raise RecipeError(
                    f"{name} of a recipe must be {params.__name__}(...) or None, got {given!r}"
                )
            object.__setattr__(self, name, given)
        object.__setattr__(self, "output", checked_output(output))
        check_temporal(self.operations)
        check_range(self.leaves)
        self._sizes  # noqa: B018 - checks that the operations fit

    @cached_property
    def temporal_operations(self) -> tuple[Temporal, ...]:
        """The operations that choose and order the frames of a clip."""
        return tuple(step for step in self.operations if isinstance(step, Temporal))

    @cached_property
    def image_operations(self) -> tuple[Operation, ...]:
        """The operations that are not temporal, which are applied to every image or frame."""
        return tuple(step for step in self.operations if not isinstance(step, Temporal))

    @cached_property
    def leaves(self) -> tuple[Operation, ...]:
        """The operations that engines carry out, in order, with combinators expanded."""
        return tuple(chain.from_iterable(operation.leaves for operation in self.operations))

    @cached_property
    def decode_operations(self) -> tuple[Operation, ...]:
        """The leading crops, at most one operation that resamples, and at most one crop after it."""
        return self.image_operations[: num_decoded(self.image_operations)]

    @cached_property
    def batch_leaves(self) -> tuple[Operation, ...]:
        """The leaves after the decode stage; an engine carries them out."""
        return self.leaves[len(self.decode_operations) :]

    @cached_property
    def _sizes(self) -> tuple[NDArray[np.int64], ...]:
        """Every size, int64 [n, 2], that images can have before each of `image_operations` and after the last."""
        return possible_sizes(self.image_operations)

    @property
    def decode_size(self) -> tuple[int, int] | None:
        """(height, width) of every image after the decode stage; None if they differ."""
        return _only(self._sizes[len(self.decode_operations)])

    @property
    def size(self) -> tuple[int, int] | None:
        """(height, width) of the final images; None if they differ."""
        return _only(self._sizes[-1])

    @property
    def fixed_size(self) -> tuple[int, int]:
        """(height, width) of the final images, for callers that stack images.

        Raises:
            RecipeError: The images can have different sizes.
        """
        if self.size is None:
            names = ", ".join(type(operation).__name__ for operation in self.operations[:4])
            sides = (getattr(operation, "size", None) for operation in self.operations)
            side = next((side for side in sides if isinstance(side, int)), "height")
            other = "width" if side == "height" else side
            raise RecipeError(
                f"images of [{names}{', ...' if len(self.operations) > 4 else ''}] can have "
                "different sizes and make no batch: add RandomResizedCrop(size), "
                f"Resize(size=({side}, {other})), CenterCrop(size) or RandomCrop(size)"
            )
        return self.size

    @cached_property
    def num_single_leaves(self) -> int:
        """Number of leading leaves of the batch stage at which the sizes of images may differ, so that they run on single images.

        After these leaves all images have one size.
        """
        num = num_single(self.image_operations, self._sizes)
        return max(num - len(self.decode_operations), 0)

    @property
    def antialias(self) -> bool:
        """Whether the resize of the decode stage is antialiased."""
        return all(getattr(op, "antialias", True) for op in self.decode_operations)

    @property
    def group(self) -> int:
        """Number of neighbouring positions of the epoch's order whose images are mixed: 1, 2 or 4."""
        return max((leaf.group for leaf in self.leaves), default=1)

    @cached_property
    def needs_boxes(self) -> bool:
        """Whether draws depend on the boxes of the samples."""
        return any(leaf.needs_boxes for leaf in self.leaves)

    def draw(
        self,
        seed: int,
        epoch: int,
        indices: NDArray[np.int64],
        sizes: NDArray[np.int64],
        *,
        positions: NDArray[np.int64] | None = None,
        length: int | None = None,
        view: int = 0,
        boxes: Sequence[Any] | None = None,
    ) -> Draws:
        """Return the drawn parameters of every operation for a batch of B samples.

        A sample's draw depends only on (seed, epoch, its index, its size, view), with two exceptions. The choice between operations
        that mix images is drawn by position, once for all images that are mixed with each other, so that they all make one
        choice. A crop that looks at boxes, such as RandomIoUCrop, depends on the sample's boxes too; after an operation that
        mixes images, on those of all images that are mixed.

        Args:
            seed: Seed, not negative.
            epoch: Epoch, not negative.
            indices: Sample indices in the dataset, int64 [B].
            sizes: Height and width of the source images after EXIF orientation, int64 [B, 2].
            positions: Positions in the epoch's order, int64 [B], which decide which samples are mixed; None means 0, 1, 2 and so
                on.
            length: Number of positions in the epoch; None means one more than the largest of ``positions``.
            view: Index of the view of each sample that is drawn; not negative.
            boxes: Boxes of each source image, B times [Ni, 4] in the format of the field ``boxes``; Ni may be 0. Only a recipe
                with `needs_boxes` reads them, and it must get them.

        Raises:
            RecipeError: An argument is not allowed or missing, or there are more views or operations than slots of random numbers.
            TargetsError: Boxes are needed, and a sample has none, or they do not fit its image.
        """
        for name, value in (("seed", seed), ("epoch", epoch)):
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
                raise RecipeError(f"{name} must be a whole number from 0, got {value!r}: give one")
        sizes = np.array(sizes, np.int64).reshape(-1, 2)
        if positions is None:
            positions = np.arange(len(sizes))
        numbers = slot_numbers(
            self.operations, seed, epoch, indices, positions // self.group, view=view
        )
        mixes = self.group > 1
        partners = find_partners(positions, length) if mixes else None
        if self.needs_boxes:
            from gpu_aug.targets.boxes_for_draws import numbers_with_boxes

            own = np.arange(len(sizes))[:, None]
            rows = own if partners is None else partners
            numbers = iter(numbers_with_boxes(self, numbers, sizes, rows, boxes))
        return self.draw_from(numbers, sizes, partners)

    def draw_from(
        self,
        numbers: Iterator[Uniforms],
        sizes: NDArray[np.int64],
        partners: NDArray[np.int64] | None = None,
    ) -> Draws:
        """Return the draws that `draw` makes of uniform numbers.

        Args:
            numbers: Uniform numbers of each slot; see `gpu_aug.draw_operations.slot_numbers`.
            sizes: Height and width of the source images, int64 [B, 2].
            partners: Rows that each row may be mixed with; see Draws. None if nothing is mixed.
        """
        params, temporal = draw_operations(self.operations, numbers, sizes)
        num_decode = len(self.decode_operations)
        return Draws(
            compose_crops(params[:num_decode], sizes, antialias=self.antialias),
            params[num_decode:],
            params[:num_decode],
            sizes,
            np.empty((len(sizes), 0), np.int64) if partners is None else partners,
            temporal,
        )

    def result_sizes(self, draws: Draws) -> NDArray[np.int64]:
        """Return height and width of every image after the last operation, int64 [B, 2]."""
        sizes = draws.sizes
        for leaf, params in zip(self.leaves, draws.decode_params + draws.params, strict=True):
            sizes = leaf.result_size(params, sizes)
        return sizes

    @property
    def target_params(self) -> dict[str, Any]:
        """The parameters for boxes, keypoints and masks that are not None, by name, as keyword arguments of Recipe."""
        given = {"boxes": self.boxes, "keypoints": self.keypoints, "masks": self.masks}
        return {name: params for name, params in given.items() if params is not None}

    def to_dict(self) -> dict[str, Any]:
        """Return the recipe as plain values, ready for JSON."""
        described = {
            "version": FORMAT_VERSION,
            "operations": [operation.to_dict() for operation in self.operations],
        } | {name: params.to_dict() for name, params in self.target_params.items()}
        return described | ({"output": list(self.output)} if self.output else {})

    def save(self, path: str | PathLike[str]) -> None:
        """Write the recipe as YAML if the path ends with .yaml or .yml, and as JSON otherwise.

        Functions and modules in the recipe are written by name, and must be given to ``load`` again.

        Raises:
            RecipeError: A step has no description that a file can hold.
        """
        write_document(self.to_dict(), path)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256, in hex, of the values that differ from their defaults and of the format version."""
        described = {
            "version": FORMAT_VERSION,
            "operations": [operation.differences() for operation in self.operations],
        } | {name: params.differences() for name, params in self.target_params.items()}
        canonical = json.dumps(described, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    # Each method below imports what it needs when it is called: those modules import this one, and the converters take long.

    @staticmethod
    def preset(name: str, **options: Any) -> Any:
        """Return the recipe, or the views, of a preset; see `gpu_aug.presets.make_preset`.

        Args:
            name: Name of the preset, one of `gpu_aug.PRESETS`.
            options: Arguments of the preset, such as ``size``.

        Raises:
            RecipeError: The preset or option does not exist.
        """
        from gpu_aug.presets import make_preset

        return make_preset(name, **options)

    @staticmethod
    @friendly_arguments
    def imagenet_train(size: int = 224) -> "Recipe":
        """Return the preset "imagenet_train": RandomResizedCrop, HorizontalFlip, Normalize."""
        from gpu_aug.presets import imagenet_train

        return imagenet_train(size)

    @staticmethod
    @friendly_arguments
    def imagenet_train_jitter(size: int = 224) -> "Recipe":
        """Return the preset "imagenet_train_jitter": ``imagenet_train`` with ColorJitter on 80 % of the images."""
        from gpu_aug.presets import imagenet_train_jitter

        return imagenet_train_jitter(size)

    @staticmethod
    @friendly_arguments
    def imagenet_eval(size: int = 224, resize: int = 256) -> "Recipe":
        """Return the preset "imagenet_eval": Resize of the shorter side, CenterCrop, Normalize."""
        from gpu_aug.presets import imagenet_eval

        return imagenet_eval(size, resize)

    @staticmethod
    def load(path: str | PathLike[str], **options: Any) -> "Recipe":
        """Return the recipe of a file that ``save`` wrote or that was written by hand.

        Args:
            path: Path of a YAML or JSON file; see gpu_aug.files.schema.
            options: ``functions``, the functions and modules that the file names, by name, because files hold no code; and
                ``max_pixels``, the largest image that an operation may make, in pixels.

        Raises:
            RecipeError: The file is missing or holds no single recipe; the text begins with ``file:line``.
        """
        from gpu_aug.files.schema import load_single

        return load_single(path, **options)

    @classmethod
    def from_dict(cls, saved: Any) -> "Recipe":
        """Return the recipe that a dictionary from ``to_dict`` describes.

        Raises:
            RecipeError: The version is another one, an operation is unknown, or a field is invalid.
        """
        from gpu_aug.files.schema import from_dict

        return from_dict(cls, saved)

    @staticmethod
    def from_albumentations(
        source: Any,
        *,
        strict: bool = True,
        translate: Mapping[Any, Callable[[Any], Any]] | None = None,
    ) -> "Recipe":
        """Return the recipe of an Albumentations pipeline; see `gpu_aug.convert.from_albumentations`.

        Raises:
            RecipeError: Transforms have no equivalent; the error has one sentence for each.
        """
        from gpu_aug.convert import from_albumentations

        return from_albumentations(source, strict=strict, translate=translate)

    @staticmethod
    def from_torchvision(
        source: Any,
        *,
        strict: bool = True,
        translate: Mapping[Any, Callable[[Any], Any]] | None = None,
    ) -> Any:
        """Return the recipe, or the views, of a torchvision pipeline; see `gpu_aug.convert.from_torchvision`.

        Raises:
            RecipeError: Transforms have no equivalent; the error has one sentence for each.
        """
        from gpu_aug.convert import from_torchvision

        return from_torchvision(source, strict=strict, translate=translate)

    def to_albumentations(self) -> Any:
        """Return an ``A.Compose`` with the recipe's distributions and, on float32 images, its pixels.

        Raises:
            RecipeError: Operations have no equivalent in Albumentations; the error has one sentence for each.
        """
        from gpu_aug.convert import to_albumentations

        return to_albumentations(self)

    def to_kornia(self) -> Any:
        """Return a ``K.AugmentationSequential`` with the recipe's distribution and pixels for each image.

        Raises:
            RecipeError: Operations have no equivalent in Kornia; the error has one sentence for each.
        """
        from gpu_aug.convert import to_kornia

        return to_kornia(self)

    def explain(self, device: str = "cpu", *, exact: bool = False) -> str:
        """Return text about how the engine "fused" carries out the batch stage; see `gpu_aug.engines.choose.explain_recipe`.

        Raises:
            EngineError: The engine cannot carry out an operation.
        """
        from gpu_aug.engines.choose import explain_recipe

        return explain_recipe(self, device, exact=exact)

    def transform(self, seed: int | None = None, **options: Any) -> Any:
        """Return the recipe as a callable for images, samples and batches; see `gpu_aug.Transform` for the options."""
        from gpu_aug.transform import Transform

        return Transform(self, seed, **options)


def find_misfit(operations: Sequence[Operation]) -> tuple[int, RecipeError] | None:
    """Return the index of the first operation that does not fit those before it, and the error; None if all fit."""
    for number in range(len(operations)):
        try:
            Recipe(operations[: number + 1])
        except RecipeError as error:
            return number, error
    return None


def _flat(steps: Sequence[Any]) -> list[Any]:
    """Return the steps, with lists and tuples among them replaced by their elements."""
    inner = [_flat(step) if isinstance(step, list | tuple) else [step] for step in steps]
    return list(chain.from_iterable(inner))


def _only(sizes: NDArray[np.int64]) -> tuple[int, int] | None:
    return (int(sizes[0, 0]), int(sizes[0, 1])) if len(sizes) == 1 else None
