"""Baseline of torchvision on the GPU with nvJPEG: `decode_jpeg` of a list, then transforms.v2."""

from collections.abc import Iterator
from typing import Any

import torch

from bench.baselines.translations import torchvision_transforms
from bench.compare.task import Pipeline, Task, Unable
from bench.compare.threads import NUM_AHEAD, threaded_batches
from gpu_aug import Recipe
from readers import read_header

_NOTE = (
    "files read by threads, torchvision.io.decode_jpeg(list) in the loop's thread; crop, flip and jitter by "
    "transforms.v2 image by image, the rest on the batch"
)


def start(task: Task) -> Pipeline:
    """Start threads that read files; the loop's thread decodes, augments and returns batches.

    Raises:
        Unable: The batches are not for a GPU, a file is not a JPEG, or the recipe is not like the presets.
    """
    if task.device.type != "cuda":
        raise Unable(f"decodes on a CUDA device, and the batches are for {task.device.type}")
    for path in task.files:
        if read_header(path.read_bytes()).format != "jpeg":
            raise Unable(f"decodes JPEGs only, and {path.name} is none")
    return Pipeline(batches_of(task), _NOTE, NUM_AHEAD, NUM_AHEAD + 1)


def batches_of(task: Task) -> Iterator[torch.Tensor]:
    """Yield batches on any device; devices other than a GPU are for tests.

    Random transforms are called per image, because a call for a batch would draw once for all images. The change of
    dtype and Normalize run on the batch.
    """
    from torchvision.io import ImageReadMode, decode_jpeg, read_file

    each, rest = _split(task.recipe)
    generator = torch.Generator().manual_seed(task.seed)
    picks = torch.randperm(len(task.files), generator=generator).tolist()
    read = threaded_batches(
        lambda position: read_file(str(task.files[picks[position % len(picks)]])),
        task.batch_size,
        task.num_threads,
    )
    for encoded in read:
        images = decode_jpeg(encoded, mode=ImageReadMode.RGB, device=task.device)
        yield rest(torch.stack([each(image) for image in images])).to(task.dtype)


def _split(recipe: Recipe) -> tuple[Any, Any]:
    """Return a recipe's transforms for single images, and those for batches, which start at the change of dtype."""
    from torchvision.transforms import v2

    steps = torchvision_transforms(recipe, before_float=[])
    first = next(number for number, step in enumerate(steps) if isinstance(step, v2.ToDtype))
    each = v2.Compose(steps[:first]) if first else v2.Identity()
    return each, v2.Compose(steps[first:])
