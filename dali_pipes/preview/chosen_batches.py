"""Make chosen samples as training makes them in an epoch, with one decoder and engine or with all pairs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from dali_pipes.arguments.options import ImageOptions
from dali_pipes.batch import Batch
from dali_pipes.errors import LoaderError, MissingPackageError
from dali_pipes.loader import Loader
from dali_pipes.preview.draw_descriptions import draw_words
from dali_pipes.preview.pictures import viewable
from dali_pipes.runs.replay import make_step, require_good
from dali_pipes.stages.assemble import assemble
from dali_pipes.stages.fetch import Fetcher
from dali_pipes.steps.schedule import Plan, complete_groups, positions_of
from dali_pipes.video.source import find_clips
from gpu_aug import Draws, EngineError, Recipe, Schedule, Targets, Views
from readers import Dataset

Decoder = Literal["dali", "cpu"]
Engine = Literal["kornia", "albumentations", "fused"]

DECODERS: tuple[Decoder, ...] = ("dali", "cpu")
ENGINES: tuple[Engine, ...] = ("kornia", "albumentations", "fused")


def pair_name(decoder: str, engine: str) -> str:
    """Return the name of a pair of decoder and engine, such as "gpu-aug/cpu+fused", for tables and files."""
    return f"gpu-aug/{decoder}+{engine}"


def short_name(name: str) -> str:
    """Return the name of a pair of decoder and engine without the name of the package."""
    return name.partition("/")[2]


@dataclass(frozen=True)
class Drawn:
    """Chosen samples as training makes them in an epoch, with their draws.

    Attributes:
        epoch: The epoch.
        batch: The samples, float32, on the CPU.
        views: The recipes of the epoch.
        draws: The draws of each view.
        rows: int64 [B], row of each sample in the draws, which also have rows of samples that are mixed into these.
        keys: Keys of all rows of the draws.
        targets: The targets of each sample, as moved by the first recipe.
        fetcher: Reads the samples.
    """

    epoch: int
    batch: Batch
    views: Views
    draws: tuple[Draws, ...]
    rows: NDArray[np.int64]
    keys: Sequence[str]
    targets: Sequence[Targets]
    fetcher: Fetcher

    def words(self, layer: "Layer", sample: int) -> list[str]:
        """Describe the draws of a sample in the view of a layer."""
        row = int(self.rows[sample])
        return draw_words(layer.recipe, self.draws[layer.view], row, self.keys)


def preview_loader(
    dataset: Dataset, recipe: Recipe | Views | Schedule, *, seed: int, **options: Any
) -> Loader:
    """Return a loader that makes samples as training does, with training's order if samples are mixed with neighbours.

    Raises:
        LoaderError: The samples are pictures of several cameras, of which previews have no layout.
    """
    clips = find_clips(dataset)
    if clips is not None and clips.cameras:
        raise LoaderError(
            f"a preview draws no pictures of the cameras {', '.join(clips.cameras)}: look at batch.cameras of "
            "Loader(...).peek()"
        )
    schedule = as_schedule(recipe)
    mixes = any(one.group > 1 for one in schedule.recipes)
    return Loader(
        dataset,
        schedule,
        batch_size=1,
        device="cpu" if options.get("engine") == "albumentations" else "auto",
        seed=seed,
        shuffle="global" if mixes else "none",
        dtype=torch.float32,
        on_bad_sample="replace",  # for bad neighbours; `draw_chosen` raises if a chosen sample is bad
        **options,
    )


def as_schedule(recipe: Recipe | Views | Schedule) -> Schedule:
    """Return a recipe as a schedule for all epochs."""
    return recipe if isinstance(recipe, Schedule) else Schedule({0: recipe})


def draw_chosen(
    loader: Loader, indices: Sequence[int], epoch: int, numbers: Sequence[int] | None = None
) -> Drawn:
    """Make chosen samples as training sees them in an epoch.

    Args:
        loader: See `preview_loader`.
        indices: Indices in the loader's dataset, without duplicates.
        epoch: The epoch, at least 0.
        numbers: If the dataset is a selection, the index in the training's dataset of each of its samples; random
            numbers are drawn by it.

    Raises:
        BadSampleError: A sample cannot be read or decoded.
    """
    setup = loader._setup
    if numbers is not None:
        setup = replace(setup, fetcher=_Renumbered.of(setup.fetcher, np.array(numbers, np.int64)))
    # Without the workers of a Ray cluster: a few samples are made in this process.
    setup = replace(setup, options=replace(setup.options, workers=None))
    fetcher = setup.fetcher
    variant = fetcher.variants.at(epoch)
    views = fetcher.variants.views[variant]
    share = np.array([one[0] for one in positions_of(fetcher.order, epoch, indices)], np.int64)
    positions, rows = complete_groups(share, views.group, len(fetcher.order))
    plan = Plan(epoch, 0, positions, rows, np.ones(len(share), bool), 0, 0, variant)
    finished, images = make_step(setup, plan)
    require_good(finished)
    batch = assemble(finished, images, setup).to("cpu")
    targets = [finished.targets[row].targets for row in rows.tolist()]
    return Drawn(epoch, batch, views, finished.draws, rows, finished.keys, targets, fetcher)


def draw_pairs(
    dataset: Dataset,
    recipe: Schedule,
    indices: Sequence[int],
    epoch: int,
    *,
    seed: int,
    numbers: Sequence[int] | None = None,
    images: ImageOptions = ImageOptions(),  # noqa: B008 - frozen
) -> tuple[dict[str, Drawn], dict[str, str]]:
    """Make samples of an epoch with every decoder and engine.

    Args:
        dataset: Images or clips.
        recipe: Recipes by epoch.
        indices: Indices in the dataset, without duplicates.
        epoch: The epoch.
        seed: Seed of the order and of the draws.
        numbers: If the dataset is a selection, the index in the training's dataset of each of its samples.
        images: Options for the images of a sample, as for Loader.

    Returns:
        The samples by name of the pair; and for pairs that cannot make them, the reason by name of the pair.

    Raises:
        BadSampleError: A sample cannot be read or decoded.
        LoaderError: No pair can make the samples.
    """
    drawn: dict[str, Drawn] = {}
    missing: dict[str, str] = {}
    for decoder, engine in product(DECODERS, ENGINES):
        name = pair_name(decoder, engine)
        try:
            how: dict[str, Any] = {"decoder": decoder, "engine": engine, "images": images}
            with preview_loader(dataset, recipe, seed=seed, **how) as loader:
                drawn[name] = draw_chosen(loader, indices, epoch, numbers)
        except (EngineError, LoaderError, MissingPackageError) as error:
            missing[name] = str(error)
    if not drawn:
        raise LoaderError(
            f"no decoder and engine can make these samples: {next(iter(missing.values()))}"
        )
    return drawn, missing


@dataclass(frozen=True, slots=True)
class _Renumbered(Fetcher):
    """A fetcher that draws random numbers for samples of a selection by their indices in the full dataset."""

    numbers: NDArray[np.int64] | None = None

    @classmethod
    def of(cls, fetcher: Fetcher, numbers: NDArray[np.int64]) -> "_Renumbered":
        own = {one.name: getattr(fetcher, one.name) for one in fields(fetcher) if one.init}
        return cls(**own, numbers=numbers)

    def identities(
        self, indices: NDArray[np.int64], repeats: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the indices in the full dataset."""
        del repeats  # each sample comes once
        assert self.numbers is not None
        return self.numbers[indices]


class Layer(NamedTuple):
    """One kind of picture in a batch.

    Attributes:
        title: Name of the layer; "" if it is the only one.
        images: Float [B, C, H, W], on the CPU, in [0, 1] unless `stretched`.
        stretched: Whether values may have any range; they are then shown from the smallest to the largest.
        recipe: The recipe of the images.
        view: Index of the view that is drawn; only the first view has targets.
    """

    title: str
    images: torch.Tensor
    stretched: bool
    recipe: Recipe
    view: int = 0


def layers_of(drawn: Drawn) -> Iterator[Layer]:
    """Yield the layers of a batch: its views, or the images of each sample, followed by its maps."""
    images, batch = drawn.fetcher.images, drawn.batch
    first, stretched = drawn.views.recipes[0], images.kind.depth == "float32"
    for name in images.names:
        yield Layer(name, viewable(batch[name], first), stretched, first)
    for view, recipe in enumerate(() if images.names else drawn.views.recipes):
        title = f"view {view + 1} of {len(drawn.views)}" if len(drawn.views) > 1 else ""
        yield Layer(title, viewable(batch.views[view], recipe), stretched, recipe, view)
    for name, _ in drawn.fetcher.targets.maps.maps:
        yield Layer(name, batch[name], True, first)


def distance_words(
    images: torch.Tensor, first: torch.Tensor, name: str, *, stretched: bool = False
) -> str:
    """Return a text with the largest difference of images from those of the first pair.

    Args:
        images: Float, in [0, 1] unless `stretched`.
        first: The images of the first pair, whose shape is that of `images`.
        name: Name of the first pair.
        stretched: Whether values may have any range; the difference is then stated unscaled, else in 1/255.
    """
    most, other = float((images.nan_to_num() - first.nan_to_num()).abs().max()), short_name(name)
    if not most:
        return f"equals {other}"
    return f"differs from {other} by at most " + (
        f"{most:.2g}" if stretched else f"{255 * most:.2g}/255"
    )
