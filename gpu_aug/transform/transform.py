"""Transform: a recipe that is called with images."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gpu_aug.apply import apply_drawn
from gpu_aug.engines.choose import EngineChoice, best_engine, compile_engine
from gpu_aug.engines.engine import Engine, takes_batches
from gpu_aug.errors import RecipeError, TargetsError
from gpu_aug.ops import validation
from gpu_aug.ops.color.normalize import ToDtype
from gpu_aug.recipe import Recipe
from gpu_aug.samples import read_sample
from gpu_aug.transform.ahead import Drawn, DrawnAhead
from gpu_aug.transform.batches import render, run_batch, run_images
from gpu_aug.transform.numbering import Numbering, Run
from gpu_aug.transform.pictures import (
    Kind,
    as_given,
    as_pixels,
    kind_of,
    moved,
    plain_size,
    room_for,
    to_pillow,
)


class Transform:
    """A recipe that is called with one image, one sample or a batch; `Recipe.transform` makes it.

    - ``transform(image)``, for ``__getitem__``: what comes back is as what was given, an array [H, W, 3], a tensor
      [3, H, W] or a Pillow image: uint8 for uint8, and float32 in [0, 1] for floats, and where the recipe has Normalize
      or ToDtype of a float (a tensor then comes for a Pillow image).
    - ``transform({"image": ..., "boxes": ..., "mask": ...})``: a dictionary as for `gpu_aug.apply`, with all targets
      moved alike.
    - ``transform(images)``, a list of images of any sizes: a batch, float32 [B, 3, H, W].
    - ``transform(batch)``, a tensor [B, 3, H, W], also on a GPU: the same; it stays on its device.
    - ``collate_fn=transform.collate`` of a DataLoader, whose dataset returns images or tuples that begin with one.

    Every image gets a draw of its own. With ``index=`` (``indices=`` of a batch) and `set_epoch` these are the draws of a
    Loader with the same seed; without, calls are counted, and in the workers of a DataLoader the draws differ by worker
    and epoch and follow from ``torch.manual_seed`` and the seed. It can be pickled and shared by threads.

    Args:
        recipe: What is done.
        seed: Not negative; None takes one from torch's generator.
        engine: As for `gpu_aug.apply`.
        exact: As for `gpu_aug.apply`.

    Raises:
        RecipeError: In a call with one image, for a recipe that mixes images.
        TargetsError: In a call, for what is no image.

    Example:
        >>> transform = Recipe([RandomCrop(32), HorizontalFlip()]).transform(seed=0)
        >>> image = np.zeros((48, 64, 3), np.uint8)
        >>> transform(image).shape, transform(image).dtype
        ((32, 32, 3), dtype('uint8'))
        >>> transform([image, image]).shape
        torch.Size([2, 3, 32, 32])
    """

    def __init__(
        self,
        recipe: Recipe,
        *,
        seed: int | None = None,
        engine: EngineChoice = "auto",
        exact: bool = False,
    ) -> None:
        if seed is not None:
            validation.whole("transform", "seed", seed, low=0, example="0")
        self.recipe = recipe
        self._options = {"engine": engine, "exact": exact}
        self._numbering = Numbering(seed)
        self._whole = not any(
            leaf.leaves_unit_range or (isinstance(leaf, ToDtype) and leaf.dtype != "uint8")
            for leaf in recipe.leaves
        )
        self._engines: dict[torch.device, Engine] = {}
        on_cpu = self._engine(torch.device("cpu"))
        plan = getattr(on_cpu, "plan", None)
        timed = bool(recipe.temporal_operations)
        self._ahead = None if plan is None or timed else DrawnAhead(recipe, plan)

    def __repr__(self) -> str:
        return f"Transform({self.recipe!r}, seed={self._numbering.seed})"

    def __reduce__(self) -> tuple[Any, ...]:
        """What is drawn ahead stays behind; calls are counted from the first again."""
        state = (self.recipe, self._numbering.seed, self._numbering.epoch, self._options)
        return _restore, state

    def set_epoch(self, epoch: int) -> None:
        """Begin an epoch: its draws are others, and calls are counted from 0."""
        validation.whole("set_epoch", "epoch", epoch, low=0, example="0")
        self._numbering.begin(epoch)

    def __call__(
        self, image: Any, *, index: int | None = None, indices: Sequence[int] | None = None
    ) -> Any:
        """Augment an image, a sample, a list of images, or a batch; see Transform."""
        is_batch = isinstance(image, Tensor) and image.ndim == 4
        if is_batch or isinstance(image, list | tuple):
            if index is not None:
                raise TargetsError(
                    f"index={index} is for one image: give indices=[...] with a batch"
                )
            return self._batch(image, indices)
        if indices is not None:
            raise TargetsError("indices= is for batches: give index=... with one image")
        if self.recipe.group > 1 or takes_batches(self.recipe):
            raise RecipeError(
                "transform(image) must have a recipe that treats images one by one, and this one mixes them or gives "
                "a function whole batches: call it with a list of images, as collate_fn=transform.collate does"
            )
        run, number = self._place(index)
        if isinstance(image, Mapping):
            return self._sample(image, run, number)
        size = plain_size(image) if self._ahead is not None else None
        if self._ahead is not None and size is not None:
            drawn = self._ahead.get(run, number, size, alone=index is not None)
            if drawn is not None:
                return self._image(image, drawn)
        return self._sample({"image": image}, run, number)["image"]

    def collate(self, items: Sequence[Any]) -> Any:
        """Make a batch of what a dataset returns: images, or tuples that begin with one, such as (image, label).

        Returns:
            The images, float32 [B, 3, H, W]; of tuples a list with that first, and the rest as torch's default_collate
            puts it together.
        """
        from torch.utils.data import default_collate

        if not isinstance(items[0], list | tuple):
            return self._batch(items, None)
        images = self._batch([item[0] for item in items], None)
        return [images, *default_collate([tuple(item[1:]) for item in items])]

    def _place(self, index: int | None) -> tuple[Run, int]:
        if index is None:
            return self._numbering.take()
        validation.whole("transform", "index", index, low=0, example="0")
        return self._numbering.given(), index

    def _image(self, image: Any, drawn: Drawn) -> Any:
        """Augment a plain image by a prepared program."""
        (cut, programs, row), kind = drawn, kind_of(image)
        move = programs.moves[row]
        if move is not None and self._whole and cut.is_plain:
            return moved(image, kind, cut.start, move)
        dtype = np.uint8 if self._whole else np.float32
        as_kind: Kind = "tensor" if kind == "pillow" and not self._whole else kind
        result, out = room_for(as_kind, programs.sizes[row], dtype)
        programs.run(row, render(as_pixels(image), cut), out)
        return to_pillow(result) if as_kind == "pillow" else result

    def _sample(self, sample: Mapping[str, Any], run: Run, number: int) -> dict[str, Any]:
        """Augment a sample as `apply` does."""
        read = read_sample(sample, 0)
        indices = np.array([run.first + run.step * number])
        draws = self.recipe.draw(run.seed, run.epoch, indices, np.array([read.size]))
        cpu = torch.device("cpu")
        [result] = apply_drawn(self.recipe, [sample], [read], draws, self._engine(cpu), cpu)
        if "image" in result:
            image = sample["image"]
            dtype = getattr(image, "dtype", np.uint8)
            whole = self._whole and dtype in (torch.uint8, np.uint8)
            result["image"] = as_given(result["image"], kind_of(image), whole=whole)
        return result

    def _batch(self, images: Any, indices: Sequence[int] | None) -> Tensor:
        if not len(images):
            raise TargetsError("transform must get at least one image, got none")
        self.recipe.fixed_size  # noqa: B018 - says what is missing
        if indices is None:
            run, first = self._numbering.take(len(images))
            numbers = run.first + run.step * np.arange(first, first + len(images))
        else:
            run = self._numbering.given()
            numbers = np.asarray(indices, np.int64)
            if numbers.shape != (len(images),):
                raise TargetsError(
                    f"indices must be one whole number for each of the {len(images)} images, got {len(numbers)}"
                )
        if isinstance(images, Tensor):
            engine = self._engine(images.device)
            return run_batch(self.recipe, engine, images, run, numbers)
        return run_images(self.recipe, self._engine(torch.device("cpu")), images, run, numbers)

    def _engine(self, device: torch.device) -> Engine:
        if device not in self._engines:
            options: Any = self._options
            name = options["engine"]
            name = best_engine() if name == "auto" else name
            self._engines[device] = compile_engine(
                name, self.recipe, device=device, exact=options["exact"]
            )
        return self._engines[device]


def make_transform(
    recipe: Recipe, seed: int | None = None, *, engine: EngineChoice = "auto", exact: bool = False
) -> Transform:
    """Return the recipe as a callable; see Transform, which has the same arguments."""
    return Transform(recipe, seed=seed, engine=engine, exact=exact)


def _restore(recipe: Recipe, seed: int | None, epoch: int, options: Any) -> Transform:
    made = Transform(recipe, seed=seed, **options)
    made.set_epoch(epoch)
    return made
