"""What a batch holds of each sample that can be seen: views, several images, depth and flow."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from dali_pipes.options import Setup
from dali_pipes.preview.canvas import Picture, to_pictures, viewable
from dali_pipes.preview.drawn import Drawn
from gpu_aug import Recipe

_UNKNOWN = (150, 0, 0)  # of a map, where it has no number


class Layer(NamedTuple):
    """One kind of picture in a batch.

    Attributes:
        title: What it is, "" where there is no other.
        images: Float [B, C, H, W], on the CPU; values in [0, 1] can be seen as they are, others are stretched.
        stretched: Whether they are others.
        recipe: What made it.
        view: Whose draws belong to it.
        first: Whether it is the first, which shows what was drawn; of views each is.
        has_targets: Whether the batch's masks, boxes and keypoints lie on it.
    """

    title: str
    images: torch.Tensor
    stretched: bool
    recipe: Recipe
    view: int = 0
    first: bool = True
    has_targets: bool = True


def layers_of(drawn: Drawn, setup: Setup) -> Iterator[Layer]:
    """Yield all layers of a batch: its views, or the images of each sample, and then its maps."""
    images = setup.fetcher.images
    first, stretched = drawn.views.recipes[0], images.kind.depth == "float32"
    if images.names:
        for name in images.names:
            values = _tensor(drawn, name)
            yield Layer(
                name, viewable(values, first), stretched, first, first=name == images.names[0]
            )
    else:
        many = len(drawn.views) > 1
        for view, recipe in enumerate(drawn.views.recipes):
            title = f"view {view + 1} of {len(drawn.views)}" if many else ""
            values = viewable(drawn.batch.views[view], recipe)
            yield Layer(title, values, stretched, recipe, view, has_targets=view == 0)
    for name, _ in setup.fetcher.targets.maps.maps:
        yield Layer(name, _tensor(drawn, name), True, first, first=False, has_targets=False)


def seen(images: torch.Tensor, *, stretched: bool) -> tuple[list[Picture], list[str]]:
    """Turn images of any channels into pictures.

    Args:
        images: Float [N, C, H, W]. Of two channels (flow) the length is shown, of more than three the first three.
        stretched: Whether the smallest number of each becomes black and the largest white; else 0 and 1 do.

    Returns:
        uint8 [H, W, 3] each, and how each is to be read, "" where it is as it seems.
    """
    channels = images.shape[1]
    about = ""
    if channels == 2:
        images, about = images.norm(dim=1, keepdim=True), "length of the vectors, "
    elif channels > 3:
        images, about = images[:, :3], f"channels 1 to 3 of {channels} as red, green and blue, "
    images = images.expand(-1, 3, -1, -1)
    pictures, words = [], []
    for image in images:
        scale, told = _scale(image) if stretched or channels == 2 else ((0.0, 1.0), "")
        known = image.isfinite().all(dim=0)
        shown = ((image - scale[0]) / (scale[1] - scale[0])).nan_to_num(0)
        [picture] = to_pictures(shown[None])
        if not known.all():
            picture = np.where(known.numpy()[..., None], picture, np.array(_UNKNOWN, np.uint8))
            told += ", red is unknown" if told else "red is unknown"
        pictures.append(picture)
        words.append((about + told).removesuffix(", "))
    return pictures, words


def _scale(image: torch.Tensor) -> tuple[tuple[float, float], str]:
    """Return the numbers that become black and white, and say so."""
    numbers = image[image.isfinite()]
    if not len(numbers):
        return (0.0, 1.0), ""
    low, high = float(numbers.min()), float(numbers.max())
    if low == high:
        return (low - 1, low + 1), f"all are {low:.4g}"
    return (low, high), f"black {low:.4g}, white {high:.4g}"


def _tensor(drawn: Drawn, name: str) -> torch.Tensor:
    values = drawn.batch.fields[name]
    assert isinstance(values, torch.Tensor)  # images and maps are; see dali_pipes.assemble
    return values


def stored(array: NDArray[Any], *, stretched: bool) -> tuple[Picture, str]:
    """Turn a decoded image, [H, W, C] of uint8 or floats, into a picture; see `seen`."""
    image = torch.from_numpy(np.ascontiguousarray(array)).permute(2, 0, 1)[None]
    image = image.float() / 255 if image.dtype == torch.uint8 else image.float()
    [picture], [words] = seen(image, stretched=stretched)
    return picture, words
