"""Chosen samples as training makes them in an epoch, and the pictures that their batch holds."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from dali_pipes.arguments.choose import available_decoders
from dali_pipes.arguments.options import ImageOptions
from dali_pipes.batch import Batch
from dali_pipes.errors import BadSampleError, LoaderError, MissingPackageError
from dali_pipes.loader import Loader
from dali_pipes.preview.draw_descriptions import draw_words
from dali_pipes.preview.pairs import DECODERS, ENGINES, Decoder, pair_name, short_name
from dali_pipes.preview.pictures import viewable
from dali_pipes.stages.assemble import assemble
from dali_pipes.stages.data import Finished
from dali_pipes.stages.fetch import Fetcher
from dali_pipes.stages.production import Production
from dali_pipes.steps.schedule import Plan, complete_groups, positions_of
from gpu_aug import Draws, EngineError, Recipe, Schedule, Views
from readers import Dataset


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
        fetcher: What read the samples.
    """

    epoch: int
    batch: Batch
    views: Views
    draws: tuple[Draws, ...]
    rows: NDArray[np.int64]
    keys: Sequence[str]
    fetcher: Fetcher

    def words(self, layer: "Layer", sample: int) -> list[str]:
        """Say what was drawn for a sample of the batch in the view of a layer."""
        row = int(self.rows[sample])
        return draw_words(layer.recipe, self.draws[layer.view], row, self.keys)


def preview_loader(
    dataset: Dataset, recipe: Recipe | Views | Schedule, *, seed: int, **options: Any
) -> Loader:
    """Return a loader that makes samples as training does: in its order where they are mixed with their neighbours."""
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
        on_bad_sample="replace",  # a neighbour that is bad; `draw_chosen` refuses one that is asked for
        **options,
    )


def as_schedule(recipe: Recipe | Views | Schedule) -> Schedule:
    """Return a recipe as one of all epochs."""
    return recipe if isinstance(recipe, Schedule) else Schedule({0: recipe})


def draw_chosen(
    loader: Loader, indices: Sequence[int], epoch: int, numbers: Sequence[int] | None = None
) -> Drawn:
    """Make any samples as they are in an epoch.

    Args:
        loader: With the whole dataset, and with the order of training where samples are mixed with their neighbours.
        indices: Places in the dataset, each once.
        epoch: At least 0.
        numbers: As which samples of the training's dataset each of the loader's is drawn; None where it is the same.

    Raises:
        BadSampleError: One of them cannot be read or decoded.
    """
    setup = loader._setup
    if numbers is not None:
        setup = replace(setup, fetcher=_Renumbered.of(setup.fetcher, np.array(numbers, np.int64)))
    # A few samples, of a fetcher that may be ours alone: they are made here.
    setup = replace(setup, options=replace(setup.options, workers=None))
    fetcher, production = setup.fetcher, Production(setup, loader.steps)
    variant = fetcher.variants.at(epoch)
    views = fetcher.variants.views[variant]
    share = np.array([one[0] for one in positions_of(fetcher.order, epoch, indices)], np.int64)
    positions, rows = complete_groups(share, views.group, len(fetcher.order))
    plan = Plan(epoch, 0, positions, rows, np.ones(len(share), bool), 0, 0, variant)
    source = production.open(len(positions))
    try:
        source.start(plan)
        finished, images = source.take()
        _require_sound(finished)
        batch = assemble(finished, images, setup).to("cpu")
    finally:
        production.stop(source)
    return Drawn(epoch, batch, views, finished.draws, rows, finished.keys, fetcher)


def draw_pairs(
    dataset: Dataset,
    recipe: Schedule,
    indices: Sequence[int],
    epoch: int,
    *,
    seed: int,
    on_pair: Callable[[str], None],
    numbers: Sequence[int] | None = None,
    **options: Any,
) -> tuple[dict[str, Drawn], dict[str, str]]:
    """Make samples of an epoch with every decoder and engine.

    Args:
        dataset: Images or clips.
        recipe: By epoch.
        indices: See `draw_chosen`, and so for `numbers`.
        epoch: Whose draws they are.
        seed: Seed of the order and of the draws.
        on_pair: Called with the name of each pair before it draws.
        numbers: As which samples they are drawn.
        options: Further arguments of Loader.

    Returns:
        What each pair made, by its name, and why the others cannot, by their names.

    Raises:
        BadSampleError: One of the samples cannot be read or decoded.
        LoaderError: Not one pair can make them.
    """
    drawn: dict[str, Drawn] = {}
    missing: dict[str, str] = {}
    for decoder, engine in product(DECODERS, ENGINES):
        name = pair_name(decoder, engine)
        on_pair(name)
        try:
            _require_decoder(decoder, options)
            pair = {"decoder": decoder, "engine": engine}
            with preview_loader(dataset, recipe, seed=seed, **pair, **options) as loader:
                drawn[name] = draw_chosen(loader, indices, epoch, numbers)
        except (EngineError, MissingPackageError) as error:
            missing[name] = str(error)
    if not drawn:
        raise LoaderError(
            f"no decoder and engine can make these samples: {next(iter(missing.values()))}"
        )
    return drawn, missing


def _require_decoder(decoder: Decoder, options: Mapping[str, Any]) -> None:
    """Refuse a decoder that is unavailable (MissingPackageError), or does not decode such images (EngineError)."""
    if reason := available_decoders()[decoder]:
        raise MissingPackageError(reason)
    images = options.get("images", ImageOptions()).image_fields()
    if decoder == "dali" and not images.is_usual:
        raise EngineError(f"DALI decodes one RGB image of 8 bits, and these are {images}")


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
    def of(cls, fetcher: Fetcher, numbers: NDArray[np.int64]) -> "_Renumbered":
        own = {one.name: getattr(fetcher, one.name) for one in fields(fetcher) if one.init}
        return cls(**own, numbers=numbers)

    def identities(
        self, indices: NDArray[np.int64], repeats: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The samples' places in the whole dataset."""
        del repeats  # each comes once
        assert self.numbers is not None
        return self.numbers[indices]


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


def layers_of(drawn: Drawn) -> Iterator[Layer]:
    """Yield all layers of a batch: its views, or the images of each sample, and then its maps."""
    images, batch = drawn.fetcher.images, drawn.batch
    first, stretched = drawn.views.recipes[0], images.kind.depth == "float32"
    for name in images.names:
        values = viewable(batch[name], first)
        yield Layer(name, values, stretched, first, first=name == images.names[0])
    for view, recipe in enumerate(() if images.names else drawn.views.recipes):
        title = f"view {view + 1} of {len(drawn.views)}" if len(drawn.views) > 1 else ""
        values = viewable(batch.views[view], recipe)
        yield Layer(title, values, stretched, recipe, view, has_targets=view == 0)
    for name, _ in drawn.fetcher.targets.maps.maps:
        yield Layer(name, batch[name], True, first, first=False, has_targets=False)


_LEAST_SHOWN = 0.001  # of 255; smaller differences are written as "less than" this


def distance_words(
    images: torch.Tensor, first: torch.Tensor, name: str, *, stretched: bool = False
) -> list[str]:
    """Say how far images are from those of the first pair, in 1/255, or as they are where they are stretched.

    Args:
        images: Float, values that lie in [0, 1] where they can be shown.
        first: Of the same shape.
        name: The first pair's.
        stretched: Whether they have values of any range.
    """
    unit, words, other = (1 if stretched else 255), ("" if stretched else "/255"), short_name(name)
    difference = unit * (images.nan_to_num() - first.nan_to_num()).abs()
    if not difference.any():
        return [f"equals {other}"]
    mean, most = float(difference.mean()), float(difference.max())
    if most < _LEAST_SHOWN:
        return [f"differs from {other}", f"by less than {_LEAST_SHOWN}{words}"]
    average = f"{mean:.3f}" if mean >= _LEAST_SHOWN else f"less than {_LEAST_SHOWN}"
    return [
        f"differs from {other}",
        f"by {average}{words} on average,",
        f"{most:.3f}{words} at most",
    ]
