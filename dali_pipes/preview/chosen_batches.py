"""Chosen samples as training makes them in an epoch, and the pictures that their batch holds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from dali_pipes.assemble import assemble
from dali_pipes.batch import Batch
from dali_pipes.errors import BadSampleError
from dali_pipes.loader import Loader
from dali_pipes.options import Setup
from dali_pipes.pipeline.fetch import Fetcher
from dali_pipes.pipeline.make import Production
from dali_pipes.pipeline.stages import Finished
from dali_pipes.positions import positions_of
from dali_pipes.preview.pictures import Picture, to_pictures, viewable
from dali_pipes.schedule import Plan, whole_groups
from gpu_aug import Draws, Recipe, Views


@dataclass(frozen=True)
class Drawn:
    """Samples of one epoch.

    Attributes:
        epoch: The epoch.
        batch: The samples, float32, on the CPU.
        views: The recipes of the epoch.
        draws: What was drawn, for each view.
        rows: int64 [B], where each sample of the batch stands in the draws, which also have those that samples are
            mixed with.
        keys: Of all rows of the draws.
    """

    epoch: int
    batch: Batch
    views: Views
    draws: tuple[Draws, ...]
    rows: NDArray[np.int64]
    keys: Sequence[str]


class Drawer:
    """Makes any samples of any epoch by a loader, which has the whole dataset.

    Args:
        loader: With the order of training, where samples are mixed with their neighbours in it.
        numbers: int64 [n], as which samples of the dataset draws are made; None where these are their own.
    """

    def __init__(self, loader: Loader, numbers: NDArray[np.int64] | None = None) -> None:
        self._setup = loader._setup
        if numbers is not None:
            self._setup = replace(self._setup, fetcher=_Renumbered.of(loader, numbers))
        # A few samples, of a fetcher that may be ours alone: they are made here.
        options = replace(self._setup.options, workers=None)
        self._production = Production(replace(self._setup, options=options), loader.steps)

    @property
    def setup(self) -> Setup:
        """What the loader is made of."""
        return self._setup

    def draw(self, indices: Sequence[int], epoch: int) -> Drawn:
        """Make samples as they are in an epoch.

        Args:
            indices: Places in the dataset, each once.
            epoch: At least 0.

        Raises:
            BadSampleError: One of them cannot be read or decoded.
        """
        fetcher = self._setup.fetcher
        variant = fetcher.variants.at(epoch)
        group = fetcher.variants.views[variant].group
        share = np.array([one[0] for one in positions_of(fetcher.order, epoch, indices)], np.int64)
        positions, rows = whole_groups(share, group, len(fetcher.order))
        valid = np.ones(len(share), bool)
        plan = Plan(epoch, 0, positions, rows, valid, 0, 0, variant)
        producer = self._production.start(len(positions))
        try:
            producer.submit(plan)
            finished, images = producer.take()
            _require_sound(finished)
            batch = assemble(finished, images, self._setup)
        finally:
            self._production.stop(producer)
        views = fetcher.variants.views[variant]
        return Drawn(epoch, _on_cpu(batch), views, finished.draws, rows, finished.keys)


def _require_sound(finished: Finished) -> None:
    """Raise BadSampleError for the first sample that is asked for and is bad, substitutes notwithstanding."""
    for row in finished.plan.rows.tolist():
        for record in finished.records[row]:
            if not record.kept:
                raise BadSampleError(f"{record.key}: {record.reason}")


@dataclass(frozen=True, slots=True)
class _Renumbered(Fetcher):
    """Draws for samples of a selection as for those of the whole dataset."""

    numbers: NDArray[np.int64] | None = None

    @classmethod
    def of(cls, loader: Loader, numbers: NDArray[np.int64]) -> "_Renumbered":
        fetcher = loader._setup.fetcher
        own: dict[str, Any] = {
            one.name: getattr(fetcher, one.name) for one in fields(fetcher) if one.init
        }
        return cls(**own, numbers=numbers)

    def identities(
        self, indices: NDArray[np.int64], repeats: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The samples' places in the whole dataset."""
        del repeats  # each comes once
        assert self.numbers is not None
        return self.numbers[indices]


def _on_cpu(batch: Batch) -> Batch:
    def moved(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.cpu()
        if isinstance(value, list):
            return [moved(one) for one in value]
        return value

    values = {one.name: getattr(batch, one.name) for one in fields(batch)}
    values["views"] = tuple(moved(view) for view in batch.views)
    values["fields"] = {name: moved(value) for name, value in batch.fields.items()}
    return Batch(**{name: moved(value) for name, value in values.items()})


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
