"""Application of a recipe to decoded images, without a loader."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpu_aug.draws import Draws
from gpu_aug.engines.choose import EngineChoice, compile_engine
from gpu_aug.engines.engine import Engine, takes_batches
from gpu_aug.engines.run_stages import run_stages
from gpu_aug.errors import EngineError, RecipeError, TargetsError
from gpu_aug.expected_recipe import require_recipe
from gpu_aug.frame_times import decoded_order
from gpu_aug.image_kind import Depth, ImageKind
from gpu_aug.ops import validation
from gpu_aug.ops.mix import Mixing
from gpu_aug.recipe import Recipe
from gpu_aug.samples import Sample, read_sample
from gpu_aug.targets.move_batch import move_batch
from gpu_aug.targets.soft_labels import soft_labels
from gpu_aug.targets.targets import Targets, as_array
from gpu_aug.views import CameraRecipes, Views

_MOST_SEEDS = 2**63 - 1  # the largest limit that torch.randint takes
MOST_INDICES = 2**63 - 2
"""The largest index of a sample: the next number, the end of a range, must fit into int64, too."""


def apply(
    recipe: Recipe | Views,
    samples: Sequence[Mapping[str, Any]],
    *,
    engine: EngineChoice = "auto",
    exact: bool = False,
    device: str | torch.device = "cpu",
    seed: int | None = None,
    epoch: int = 0,
    indices: Sequence[int] | None = None,
    channels: int = 3,
    depth: Depth = 8,
) -> list[Any]:
    """Augment decoded images and their masks, boxes, keypoints and labels.

    With ``indices``, the samples' indices in their dataset, the draws are those of a Loader with this seed in this epoch.
    Without ``indices`` and ``seed``, every call draws anew, with a seed from torch's generator; ``torch.manual_seed`` sets it,
    and each worker of torch's DataLoader has its own. That suits the ``__getitem__`` of a dataset, but the draws depend on
    workers, ranks and the order of calls.

    A sample is a dictionary with ``image`` or ``images``, and any of the other keys:

    - ``image``: An image: [H, W, 3], [H, W, 1] or [H, W] as an array or a Pillow image; [3, H, W], [1, H, W] or [H, W] as
      a tensor; uint8, or floating-point in [0, 1] (converted to float32). A clip has one more axis in front; temporal
      operations choose among its frames. Gray images become three equal channels.
    - ``images``: More images of the sample, of one size: a list, or a dictionary with names as keys. All get equal draws.
    - ``mask``, ``masks``: One mask [H, W], or several [M, H, W], integers or bool.
    - ``boxes``, ``box_labels``, ``keypoints``, ``keypoint_labels``: see Targets, BoxParams and
      KeypointParams.
    - ``label``: A class index or soft label, for recipes that mix images; others return it unchanged.
    - ``extra``: Any value; it is returned unchanged.

    Args:
        recipe: One recipe, or Views. A sample's result depends on (seed, epoch, its index) and, if images are mixed, on its
            neighbours: samples 2k and 2k + 1 are a pair, 4k to 4k + 3 are four.
        samples: Samples of any sizes.
        engine: Name of the engine: "fused", "kornia" or "albumentations"; "auto" chooses as the Loader does.
        exact: Whether each warp interpolates by itself; if False, the fused engine composes consecutive warps.
        device: Device on which the engine runs and on which the images of the results lie.
        seed: Seed, not negative; None means 0 with ``indices``, and a random seed without. With a seed and without ``indices``,
            the samples have the indices 0, 1, 2 and so on, so that every call has equal draws.
        epoch: Epoch, not negative; it needs ``indices`` or ``seed``.
        indices: Index of each sample in its dataset.
        channels: Number of channels of every image. If it is not 3, arrays are [H, W, C] and tensors [C, H, W].
        depth: Depth of the images: 8; 16 for uint16 images, which are divided by 65535; "float32" for numbers of any range, which
            are not scaled. The recipe must take such images.

    Returns:
        A dictionary per sample with its keys. Images are float32 [C, H', W'] (clips [T, C, H', W']), boxes and keypoints are
        float32; labels are unchanged, or float32 [C] if they were mixed. All are tensors, also if Pillow images or arrays were
        given. For Views, a tuple of one dictionary per view.

    Raises:
        TargetsError: A sample is invalid; the error names its index in ``samples`` and the key.
        RecipeError: The recipe cannot be carried out on such samples, or an argument is invalid.

    Example:
        >>> recipe = Recipe([RandomResizedCrop(32), HorizontalFlip()])
        >>> sample = {"image": np.zeros((48, 64, 3), np.uint8), "boxes": [[10, 10, 40, 40]]}
        >>> [result] = apply(recipe, [sample], seed=0, epoch=1, indices=[7])
        >>> result["image"].shape
        torch.Size([3, 32, 32])
    """
    require_recipe(recipe, Recipe, Views)
    if isinstance(recipe, CameraRecipes):
        raise RecipeError(
            "apply got CameraRecipes, and its samples have no names of cameras: give them to a Loader, or apply each "
            "of their recipes"
        )
    if isinstance(samples, Mapping) or not isinstance(samples, Sequence):
        raise TargetsError(
            f"samples must be a list of dictionaries, got {type(samples).__name__}: put a single one "
            "into a list"
        )
    seed = _read_seed(seed, epoch, indices)
    own_indices = read_indices(indices, len(samples))
    on = _read_device(device)
    kind = ImageKind(channels, depth)
    recipes = recipe.recipes if isinstance(recipe, Views) else (recipe,)
    for one in recipes:
        kind.require_fits(one.operations)
    read = [read_sample(sample, number, kind) for number, sample in enumerate(samples)]
    sizes = np.array([one.size for one in read], np.int64).reshape(-1, 2)
    boxes = [one.targets.boxes for one in read]
    drawn = recipe.draw(seed, epoch, own_indices, sizes, boxes=boxes)
    results = [
        apply_drawn(
            one,
            samples,
            read,
            draws,
            compile_engine(engine, one, device=on, exact=exact, kind=kind),
            on,
        )
        for one, draws in zip(recipes, drawn if isinstance(drawn, tuple) else (drawn,), strict=True)
    ]
    return list(zip(*results, strict=True)) if isinstance(recipe, Views) else results[0]


def _read_seed(seed: int | None, epoch: int, indices: Sequence[int] | None) -> int:
    validation.whole("apply", "epoch", epoch, low=0, example="0")
    if seed is not None:
        validation.whole("apply", "seed", seed, low=0, example="0")
        return seed
    if indices is not None:
        return 0
    if epoch:
        raise RecipeError(
            f"indices must be given with epoch={epoch}, got none: without them every call draws anew, "
            "so give indices=[...], or leave epoch out"
        )
    return int(torch.randint(_MOST_SEEDS, (), device="cpu"))


def read_indices(indices: Sequence[int] | None, num: int) -> NDArray[np.int64]:
    """Check the indices of some samples, and return them; None stands for 0, 1, 2 and so on."""
    if indices is None:
        return np.arange(num)
    numbers = as_array(indices)
    numbers = numbers.astype(np.int64) if numbers.size == 0 else numbers
    is_right = numbers.shape == (num,) and numbers.dtype.kind in "iu"
    if not is_right or (numbers < 0).any() or (numbers > MOST_INDICES).any():
        raise TargetsError(
            f"indices must be one whole number from 0 to {MOST_INDICES} per sample ({num}), got {indices!r}"
        )
    return numbers.astype(np.int64)


def _read_device(device: str | torch.device) -> torch.device:
    try:
        on = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise EngineError(f"device must be 'cpu', 'cuda' or 'cuda:N', got {device!r}") from error
    if on.type == "cuda" and not torch.cuda.is_available():
        raise EngineError(f"device must be 'cpu' where torch sees no GPU, got {device!r}")
    return on


def check_fit(recipe: Recipe, samples: Sequence[Mapping[str, Any]]) -> None:
    """Check that targets are in the form that the recipe expects.

    Raises:
        TargetsError: Boxes are torchvision's BoundingBoxes in another format, or there is one mask for all boxes.
    """
    wanted = recipe.boxes.format if recipe.boxes else "xyxy"
    instances = recipe.boxes is not None and recipe.boxes.instance_masks
    for number, sample in enumerate(samples):
        if instances and sample.get("mask") is not None:
            raise TargetsError(
                f"sample {number}: mask cannot be told from the masks of boxes with "
                "instance_masks=True: give masks alone, one per box"
            )
        form = getattr(getattr(sample.get("boxes"), "format", None), "name", None)
        if isinstance(form, str) and form.lower() != wanted:
            raise TargetsError(
                f"sample {number}: boxes must be in the recipe's format, {wanted}, "
                f"got {form}: convert them, or give the recipe BoxParams(format={form.lower()!r})"
            )


def apply_drawn(
    recipe: Recipe,
    given: Sequence[Mapping[str, Any]],
    samples: list[Sample],
    draws: Draws,
    engine: Engine,
    device: torch.device,
) -> list[dict[str, Any]]:
    """Return samples augmented with parameters that are already drawn; see `apply`.

    Args:
        recipe: The recipe.
        given: The samples as the user gave them.
        samples: The samples as `read_sample` returned them.
        draws: Draws for these samples.
        engine: Engine for the recipe's batch stage.
        device: Device of the engine.
    """
    if not samples:
        return []
    check_fit(recipe, given)
    return with_targets(recipe, samples, draws, run_samples(recipe, samples, draws, engine, device))


def with_targets(
    recipe: Recipe, samples: list[Sample], draws: Draws, images: Sequence[Any] | Tensor
) -> list[dict[str, Any]]:
    """Return the results of samples whose images are already augmented: their targets are moved, and labels are mixed.

    Args:
        recipe: The recipe.
        samples: The samples.
        draws: Draws for these samples.
        images: For each sample its augmented images and frames, in order.
    """
    moved = move_batch(
        recipe,
        draws,
        [sample.targets for sample in samples],
        separate_masks=[sample.rest.get("mask") is None for sample in samples],
    )
    labels = _labels(recipe, draws, samples)
    return [
        _result(sample, frames, targets, label)
        for sample, frames, targets, label in zip(samples, images, moved, labels, strict=True)
    ]


def run_samples(
    recipe: Recipe, samples: list[Sample], draws: Draws, engine: Engine, device: torch.device
) -> Tensor | list[Tensor]:
    """Return the augmented images of samples: float32 [B, n, C, H', W'], or B tensors if sizes or counts differ.

    Args:
        recipe: The recipe.
        samples: At least one sample.
        draws: Draws for these samples.
        engine: Engine for the recipe's batch stage.
        device: Device of the engine.
    """
    if recipe.temporal_operations:
        samples = [_retimed(recipe, sample, draws, row) for row, sample in enumerate(samples)]
    counts = {len(sample.frames) for sample in samples}
    if (recipe.group > 1 or takes_batches(recipe)) and len(counts) > 1:
        raise RecipeError(
            "samples must have equally many images where they are mixed or given to a function together, "
            f"got {sorted(counts)}: give clips of one length"
        )
    if recipe.size is not None and len(counts) == 1:
        frames = [frame for sample in samples for frame in sample.frames]
        out = run_stages(recipe, engine, frames, draws.repeat(*counts), device)
        return out.view(len(samples), -1, *out.shape[1:])
    if recipe.group > 1:
        recipe.fixed_size  # noqa: B018 - says what is missing
    return [
        torch.cat([run_stages(recipe, engine, [frame], own, device) for frame in sample.frames])
        for sample, own in zip(
            samples, (draws.rows(row, row + 1) for row in range(len(samples))), strict=True
        )
    ]


def _retimed(recipe: Recipe, sample: Sample, draws: Draws, row: int) -> Sample:
    """Return a sample with the frames of its clips chosen and ordered by the temporal operations; all clips get one draw."""
    frames: list[Tensor] = []
    start = 0
    for key, count in sample.shapes.items():
        if count is None:
            name = type(recipe.temporal_operations[0]).__name__
            raise TargetsError(
                f"sample {row}: {key if isinstance(key, str) else key[0]} must be a clip, [T, ...], for "
                f"{name} moves frames in time, got one image: give a clip, or take {name} out of the recipe"
            )
        [order] = decoded_order(recipe, draws.rows(row, row + 1), count)
        frames += [sample.frames[start + frame] for frame in order.tolist()]
        start += count
    return replace(sample, frames=frames)


def _labels(recipe: Recipe, draws: Draws, samples: list[Sample]) -> list[Any]:
    """Return the label of every sample; labels are mixed if images are mixed."""
    labels = [sample.rest.get("label") for sample in samples]
    there = [label is not None for label in labels]
    mixes = any(isinstance(leaf, Mixing) for leaf in recipe.leaves)
    if not mixes or not any(there):
        return labels
    if not all(there):
        raise TargetsError(
            f"sample {there.index(False)}: label must be given for all samples or for none where "
            "images are mixed, got none: give it"
        )
    arrays = [as_array(label) for label in labels]
    for number, array in enumerate(arrays):
        if array.shape != arrays[0].shape:
            raise TargetsError(
                f"sample {number}: label must have the shape of sample 0's, "
                f"{list(arrays[0].shape)}, got {list(array.shape)}: give class numbers to all, or "
                "soft labels of as many classes"
            )
    mixed = soft_labels(recipe, draws, np.stack(arrays))
    return list(torch.from_numpy(mixed))


def _result(sample: Sample, frames: Any, targets: Targets, label: Any) -> dict[str, Any]:
    result: dict[str, Any] = {}
    start = 0
    for key, count in sample.shapes.items():
        part = frames[start] if count is None else frames[start : start + count]
        start += count or 1
        if isinstance(key, str):
            result[key] = part
        elif isinstance(key[1], int):
            result.setdefault(key[0], []).append(part)
        else:
            result.setdefault(key[0], {})[key[1]] = part
    result |= sample.rest | ({"label": label} if "label" in sample.rest else {})
    if targets.masks is not None:
        masks = torch.from_numpy(targets.masks)
        if result.get("mask") is not None:
            result["mask"], masks = masks[0], masks[1:]
        if result.get("masks") is not None:
            result["masks"] = masks
    for name in ("boxes", "keypoints"):
        values = getattr(targets, name)
        if values is not None:
            result[name] = torch.from_numpy(values).float()
    for name in ("box_labels", "keypoint_labels"):
        values = getattr(targets, name)
        if values is not None:
            result[name] = torch.from_numpy(values) if values.dtype.kind in "iufb" else values
    return result
