"""Transform: a recipe as a callable on images.

A single plain image is augmented by a program that was prepared for many calls at once (`DrawnAhead`), which saves most of the
cost of a small recipe; all other images are augmented like by `apply`. Both use one implementation of the decode stage.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpu_aug.apply import (
    MOST_INDICES,
    apply_drawn,
    check_fit,
    read_indices,
    run_samples,
    with_targets,
)
from gpu_aug.draws import Draws
from gpu_aug.engines.choose import EngineChoice, best_engine, compile_engine
from gpu_aug.engines.engine import Engine, takes_batches
from gpu_aug.engines.run_stages import run_stages
from gpu_aug.errors import RecipeError, TargetsError
from gpu_aug.expected_recipe import require_recipe
from gpu_aug.ops import validation
from gpu_aug.ops.color.normalize import ToDtype
from gpu_aug.output import GRAY, converted
from gpu_aug.recipe import Recipe
from gpu_aug.resampling.crop_and_resize import render_bytes
from gpu_aug.resampling.crops import cuts_of
from gpu_aug.samples import read_sample, read_without_image
from gpu_aug.targets.soft_labels import soft_labels
from gpu_aug.targets.targets import as_array
from gpu_aug.transform.ahead import Drawn, DrawnAhead
from gpu_aug.transform.numbering import Numbering, Run
from gpu_aug.transform.pictures import (
    Kind,
    as_dtype,
    as_given,
    as_pixels,
    finished,
    kind_of,
    moved,
    plain_size,
    room_for,
)

Draw = Callable[[NDArray[np.int64]], Draws]
"""Returns the draws for images of sizes (height, width), int64 [B, 2]."""


class Transform:
    """A recipe as a callable on one image, one sample or a batch; `Recipe.transform` makes it.

    - ``transform(image)``, for ``__getitem__``: returns what it is given, an array [H, W, 3], a tensor [3, H, W] or a
      Pillow image. uint8 stays uint8; floats, and all images if the recipe has Normalize or ToDtype of a float, become
      float32 (Pillow images then become tensors). `Recipe.output` adds the conversions of an imported pipeline, such as
      ToTensor.
    - ``transform({"image": ..., "boxes": ..., "mask": ...})``: a dictionary as for `gpu_aug.apply`, with all targets
      moved alike. Further images of the sample, under ``images``, are returned as they are given, too.
    - ``transform(images)``, a list of images of any sizes: a batch, float32 [B, 3, H, W].
    - ``transform(batch)``, a tensor [B, 3, H, W], also on a GPU: a batch, float32 [B, 3, H, W], on that device.
    - ``transform(images, labels)``, a list or tensor of images and their class indices or soft labels, for recipes that
      mix images: the batch and its soft labels, float32 [B, number of classes], as a Loader makes them.
    - ``collate_fn=transform.collate`` of a DataLoader whose dataset returns images, or tuples that begin with an image.

    Images are RGB or gray, of 8 bits or floats in [0, 1]; `gpu_aug.apply` takes others.

    Every image gets its own draw. With ``index=`` (``indices=`` for a batch) and `set_epoch` these are the draws of a Loader
    with this seed. Without, calls are counted; in the workers of a DataLoader the draws then differ by worker and epoch, and
    depend only on ``torch.manual_seed`` and the seed. A transform can be pickled and shared by threads.

    Args:
        recipe: The recipe.
        seed: Seed of the draws, not negative; None takes one from torch's generator.
        engine: Name of the engine; see `gpu_aug.apply`.
        exact: Whether each warp interpolates by itself; see `gpu_aug.apply`.
        view: Index of the view of a sample that is drawn.

    Raises:
        RecipeError: A call has one image or no labels, and the recipe mixes images.
        TargetsError: An argument of a call is not an image.

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
        seed: int | None = None,
        *,
        engine: EngineChoice = "auto",
        exact: bool = False,
        view: int = 0,
    ) -> None:
        if seed is not None:
            validation.whole("transform", "seed", seed, low=0, example="0")
        require_recipe(recipe, Recipe)
        self.recipe = recipe
        self._options = {"engine": engine, "exact": exact, "view": view}
        self._view = view
        self._numbering = Numbering(seed)
        self._whole = not any(
            leaf.leaves_unit_range or (isinstance(leaf, ToDtype) and leaf.dtype != "uint8")
            for leaf in recipe.leaves
        )
        self._mixes = recipe.group > 1
        self._gray = GRAY in recipe.output
        self._engines: dict[torch.device, Engine] = {}
        on_cpu = self._engine(torch.device("cpu"))
        plan = getattr(on_cpu, "plan", None)
        timed = bool(recipe.temporal_operations)
        # What is drawn ahead must depend on nothing but the size of an image.
        is_alone = timed or recipe.needs_boxes
        self._ahead = None if plan is None or is_alone else DrawnAhead(recipe, plan, view)
        # A list of plain images is rendered onto one array.
        self._is_plain = recipe.decode_size is not None and not timed

    def __repr__(self) -> str:
        return f"Transform({self.recipe!r}, seed={self._numbering.seed})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without the prepared draws; calls of the copy are counted from 0."""
        state = (self.recipe, self._numbering.seed, self._numbering.epoch, self._options)
        return _restore, state

    def set_epoch(self, epoch: int) -> None:
        """Begin an epoch, which has its own draws; calls are counted from 0."""
        validation.whole("set_epoch", "epoch", epoch, low=0, example="0")
        self._numbering.begin(epoch)

    def __call__(
        self,
        image: Any,
        labels: Any = None,
        *,
        index: int | None = None,
        indices: Sequence[int] | None = None,
    ) -> Any:
        """Return an augmented image, sample or batch; see Transform."""
        is_batch = isinstance(image, Tensor) and image.ndim == 4
        if is_batch or isinstance(image, list | tuple):
            if index is not None:
                raise TargetsError(
                    f"index={index} is for one image: give indices=[...] with a batch"
                )
            batch, mixed = self._batch(image, labels, indices)
            return batch if labels is None else [batch, mixed]
        if indices is not None or labels is not None:
            raise TargetsError(
                "indices= and labels are for batches: give index=... with one image, leave its label as it is, and give boxes "
                'and other targets in one dictionary with the image, {"image": ..., "boxes": ...}'
            )
        if self._mixes or takes_batches(self.recipe):
            raise RecipeError(
                "transform(image) must have a recipe that treats images one by one, and this one mixes them or gives "
                "a function whole batches: call it with a list of images and their labels, as collate_fn=transform.collate does"
            )
        run, number = self._place(index)
        if isinstance(image, Mapping):
            return self._sample(image, run, number, alone=index is not None)
        done = self._plain(image, run, number, alone=index is not None)
        return (
            self._sample({"image": image}, run, number, alone=True)["image"]
            if done is None
            else done
        )

    def collate(self, items: Sequence[Any]) -> Any:
        """Return the batch of some items of a dataset: images, or tuples that begin with an image, such as (image, label).

        Returns:
            For images the batch, float32 [B, 3, H, W]. For tuples a list of this batch and of the other elements as torch's
            default_collate joins them; if the recipe mixes images, the second element is the label, and becomes float32
            [B, number of classes].

        Raises:
            RecipeError: The recipe mixes images, and labels are missing or not integers, or the number of classes is unknown.
        """
        from torch.utils.data import default_collate

        if not isinstance(items[0], list | tuple):
            return self._batch(items, None, None)[0]
        rest: list[Any] = default_collate([tuple(item[1:]) for item in items])
        batch, labels = self._batch([item[0] for item in items], next(iter(rest), None), None)
        return [batch, *([labels] if rest else []), *rest[1:]]

    def _place(self, index: int | None) -> tuple[Run, int]:
        if index is None:
            return self._numbering.take()
        validation.whole("transform", "index", index, low=0, high=MOST_INDICES, example="0")
        return self._numbering.given(), index

    def _plain(self, image: Any, run: Run, number: int, *, alone: bool) -> Any:
        """Return a plain image after the decode and the batch stage; None if it is not plain, or if another engine runs."""
        size = plain_size(image) if self._ahead is not None else None
        if self._ahead is None or size is None:
            return None
        drawn = self._ahead.get(run, number, size, alone=alone)
        if drawn is None:
            return self._image_in_passes(image, self._ahead.draws(run, number, size))
        return self._image(image, drawn)

    def _image(self, image: Any, drawn: Drawn) -> Any:
        """Return a plain image after a prepared program."""
        (cut, programs, row), given = drawn, kind_of(image)
        kind, dtype = self._form(given, "uint8")
        move = programs.move(row, cut.canvas)
        if move is not None and (kind, dtype) == (given, "uint8") and not self._gray:
            if cut.is_plain:
                return moved(image, kind, cut.start, move)
            if kind in ("array", "pillow"):
                canvas = render_bytes(as_pixels(image), cut)
                done = moved(canvas, "array", (0, 0), move, is_own=True)
                return finished(done, kind, dtype, gray=False)
        result, out = room_for(kind, programs.size(row, cut.canvas), dtype)
        programs.run(row, render_bytes(as_pixels(image), cut), out)
        return finished(result, kind, dtype, gray=self._gray)

    def _image_in_passes(self, image: Any, draws: Draws) -> Any:
        """Return a plain image after a batch stage that takes several passes; the last one writes the result's own dtype."""
        kind, dtype = self._form(kind_of(image), "uint8")
        [cut], [size] = cuts_of(draws.crops), self.recipe.result_sizes(draws).tolist()
        result, out = room_for(kind, size, dtype)
        # Torch warns of memory that cannot be written to, which is then copied.
        pixels = torch.from_numpy(np.require(render_bytes(as_pixels(image), cut), requirements="W"))
        engine = self._engine(torch.device("cpu"))
        engine.run(pixels[None], draws, torch.from_numpy(out).permute(2, 0, 1)[None])
        return finished(result, kind, dtype, gray=self._gray)

    def _form(self, kind: str, dtype: str) -> tuple[Any, str]:
        """Return the kind and the dtype of the result for an image of this kind and dtype ("uint8" or "float32")."""
        kind, dtype = converted(self.recipe.output, kind, dtype)
        if not self._whole and dtype == "uint8":
            dtype = "float32"
        return "tensor" if kind == "pillow" and dtype != "uint8" else kind, dtype

    def _sample(
        self, sample: Mapping[str, Any], run: Run, number: int, *, alone: bool
    ) -> dict[str, Any]:
        """Return a sample augmented as by `apply`."""
        size = plain_size(sample.get("image"))
        if self._ahead is not None and size is not None and sample.get("images") is None:
            checked = read_without_image(sample, 0, size)
            check_fit(self.recipe, [sample])
            image = self._plain(sample["image"], run, number, alone=alone)
            if image is not None:
                own = self._ahead.draws(run, number, size)
                return with_targets(self.recipe, [checked], own, [[image]])[0]
        read = read_sample(sample, 0)
        indices = np.array([run.first + run.step * number])
        sizes = np.array([read.size])
        boxes = [read.targets.boxes]
        draws = self.recipe.draw(run.seed, run.epoch, indices, sizes, view=self._view, boxes=boxes)
        cpu = torch.device("cpu")
        [result] = apply_drawn(self.recipe, [sample], [read], draws, self._engine(cpu), cpu)
        if "image" in result:
            result["image"] = self._as_given(result["image"], sample["image"])
        more, given = result.get("images"), sample.get("images")
        if isinstance(more, Mapping) and isinstance(given, Mapping):
            pairs = zip(more.items(), given.values(), strict=True)
            result["images"] = {name: self._as_given(one, own) for (name, one), own in pairs}
        elif more is not None and given is not None:
            result["images"] = list(map(self._as_given, more, given))
        return result

    def _as_given(self, image: Tensor, given: Any) -> Any:
        """Return an augmented image as an image of the kind that was given."""
        kind, dtype = self._form(*_given_form(given))
        return as_given(image, kind, dtype, gray=self._gray)

    def _batch(self, images: Any, labels: Any, indices: Sequence[int] | None) -> tuple[Tensor, Any]:
        """Return a batch of augmented images, and its labels, which are mixed if images are mixed."""
        if not len(images):
            raise TargetsError("transform must get at least one image, got none")
        if self._mixes and labels is None:
            raise RecipeError(
                "transform must get the labels of images that the recipe mixes, got none: call transform(images, labels), "
                "or return (image, label) from the dataset, with collate_fn=transform.collate"
            )
        self.recipe.fixed_size  # noqa: B018 - says what is missing
        if indices is None:
            run, first = self._numbering.take(len(images))
            numbers = run.first + run.step * np.arange(first, first + len(images))
        else:
            run = self._numbering.given()
            numbers = read_indices(indices, len(images))
        draw = partial(self.recipe.draw, run.seed, run.epoch, numbers, view=self._view)
        on = images.device if isinstance(images, Tensor) else torch.device("cpu")
        if isinstance(images, Tensor):
            batch, draws = self._run_tensor(images, draw)
        elif None in (sizes := [plain_size(image) for image in images]) or not self._is_plain:
            batch, draws = self._run_any(images, draw)
        else:
            draws = draw(np.array(sizes))
            batch = self._run_plain(images, draws)
        if self.recipe.output:
            batch = as_dtype(batch, self._form(*_given_form(images[0]))[1])
            batch = batch[:, :1] if self._gray else batch
        if self._mixes:
            mixed = soft_labels(self.recipe, draws, as_array(labels))
            return batch, torch.from_numpy(mixed).to(on)
        return batch, labels

    def _run_tensor(self, batch: Tensor, draw: Draw) -> tuple[Tensor, Draws]:
        """Return a batch [B, 3, H, W] augmented on its device, and its draws."""
        if batch.shape[1] != 3 or not (batch.dtype == torch.uint8 or batch.is_floating_point()):
            dtype = str(batch.dtype).removeprefix("torch.")
            raise TargetsError(
                f"a batch must be uint8 or float in [0, 1] [B, 3, H, W], got {dtype} {list(batch.shape)}"
            )
        on, pixels = batch.device, batch.permute(0, 2, 3, 1)
        if pixels.is_floating_point():
            pixels = pixels.float()
        elif on.type != "cpu" and self.recipe.decode_operations:
            pixels = pixels.float() / 255  # only the CPU resizes uint8
        draws = draw(np.tile(np.array(pixels.shape[1:3]), (len(pixels), 1)))
        return run_stages(self.recipe, self._engine(on), pixels, draws, on), draws

    def _run_plain(self, images: Sequence[Any], draws: Draws) -> Tensor:
        """Return a batch of plain images; each is read just before it is rendered, so that it is still in the cache."""
        canvases = np.empty((len(images), *draws.crops.canvas[0], 3), np.uint8)
        for image, cut, canvas in zip(images, cuts_of(draws.crops), canvases, strict=True):
            render_bytes(as_pixels(image), cut, canvas)
        size = self.recipe.fixed_size
        out = torch.empty(len(images), 3, *size, memory_format=torch.channels_last)
        self._engine(out.device).run(torch.from_numpy(canvases), draws, out)
        return out

    def _run_any(self, images: Sequence[Any], draw: Draw) -> tuple[Tensor, Draws]:
        """Return a batch of images of any kinds, or of clips, and its draws."""
        samples = [read_sample({"image": image}, row) for row, image in enumerate(images)]
        draws, on = draw(np.array([sample.size for sample in samples])), torch.device("cpu")
        results = run_samples(self.recipe, samples, draws, self._engine(on), on)
        batch = results if isinstance(results, Tensor) else torch.stack(results)
        return batch if samples[0].shapes["image"] else batch[:, 0], draws

    def _engine(self, device: torch.device) -> Engine:
        if device not in self._engines:
            options: Any = self._options
            name = options["engine"]
            name = best_engine() if name == "auto" else name
            self._engines[device] = compile_engine(
                name, self.recipe, device=device, exact=options["exact"]
            )
        return self._engines[device]


def _given_form(image: Any) -> tuple[Kind, str]:
    """Return the kind of an image, and the dtype of its values: "uint8", or "float32" for all floating-point numbers."""
    is_uint8 = getattr(image, "dtype", np.uint8) in (torch.uint8, np.uint8)
    return kind_of(image), "uint8" if is_uint8 else "float32"


def _restore(recipe: Recipe, seed: int | None, epoch: int, options: Any) -> Transform:
    made = Transform(recipe, seed=seed, **options)
    made.set_epoch(epoch)
    return made
