"""A picture of what every decoder and engine makes of the same images with the same draws."""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from types import MappingProxyType
from typing import Any

import torch

from dali_pipes.choose import available_decoders
from dali_pipes.errors import LoaderError, MissingPackageError
from dali_pipes.image_fields import as_image_fields
from dali_pipes.preview.cells import LARGEST, fit, targets_of
from dali_pipes.preview.drawn import Drawer, Drawn
from dali_pipes.preview.grid import Cell, Row, lay_out
from dali_pipes.preview.images import HINT, Preview, as_views, image_loader, originals_of
from dali_pipes.preview.layers import Layer, layers_of, seen
from dali_pipes.preview.page import Line
from dali_pipes.preview.pairs import DECODERS, ENGINES, Decoder, pair_name
from dali_pipes.preview.words import draw_words
from gpu_aug import EngineError, Recipe, Schedule, Targets, Views
from readers.dataset import IndexedDataset

_TOLD = 0.001  # smaller differences are not told in figures


def preview_engines(
    dataset: IndexedDataset,
    recipe: Recipe | Views | Schedule,
    indices: Sequence[int],
    *,
    seed: int = 0,
    epoch: int = 0,
    on_pair: Callable[[str], None] = lambda _: None,
    **options: Any,
) -> Preview:
    """Draw originals, and below them what every decoder and engine makes of them with the same draws.

    Beside each row stands how far it is from that of the first pair. Every view has a row. Masks, boxes and keypoints
    are drawn on the pictures where the data has them.

    Args:
        dataset: Images.
        recipe: With a fixed size of its results.
        indices: Which samples are drawn, each once; they decode, see `sound_samples`.
        seed: Seed of the draws.
        epoch: Whose draws they are.
        on_pair: Called with the name of each pair before it is drawn.
        options: As for `preview_images`.

    Raises:
        BadSampleError: One of the samples cannot be read or decoded.
        LoaderError: There is nothing to draw.

    Example:
        >>> from dali_pipes.preview import preview_engines
        >>> preview = preview_engines(open_dataset("photos/"), Recipe.imagenet_train(size=64), range(3))
        >>> preview.picture.save("engines.png")
    """
    if not len(indices):
        raise LoaderError("a preview needs samples, got none: give at least one")
    schedule = recipe if isinstance(recipe, Schedule) else Schedule({0: recipe})
    recipe = as_views(schedule.at(epoch)).recipes[0]
    rows: list[Row] = []
    missing: dict[str, str] = {}
    first: tuple[str, list[Layer]] | None = None
    for decoder, engine in product(DECODERS, ENGINES):
        name = pair_name(decoder, engine)
        on_pair(name)
        try:
            require_decoder(decoder, options)
            with image_loader(
                dataset, schedule, indices, seed=seed, decoder=decoder, engine=engine, **options
            ) as loader:
                drawer = Drawer(loader)
                drawn = drawer.draw(indices, epoch)
        except (EngineError, MissingPackageError) as error:
            missing[name] = str(error)
            continue
        layers = list(layers_of(drawn, drawer.setup))
        if first is None:
            originals = originals_of(dataset, drawer.setup.fetcher.images, recipe, indices)
            for number in range(len(originals[0])):
                rows.append(Row([own[number] for own in originals], ["original"]))
        rows += _rows(name, drawn, layers, first)
        first = first or (name, layers)
    if first is None:
        raise LoaderError(
            f"no decoder and engine can make these images: {next(iter(missing.values()))}"
        )
    heading = [f"every decoder and engine, with the same draws; seed {seed}, epoch {epoch}", HINT]
    return Preview(lay_out(rows, heading), missing)


def require_decoder(decoder: Decoder, options: Mapping[str, Any] = MappingProxyType({})) -> None:
    """Refuse a decoder that is not there, or does not decode such images.

    Raises:
        MissingPackageError: With what is missing.
        EngineError: It decodes RGB images of 8 bits alone.
    """
    if reason := available_decoders()[decoder]:
        raise MissingPackageError(reason)
    images = as_image_fields(
        options.get("images"), options.get("channels", 3), options.get("depth", 8)
    )
    if decoder == "dali" and not images.is_usual:
        raise EngineError(f"DALI decodes one RGB image of 8 bits, and these are {images}")


def _rows(
    name: str, drawn: Drawn, layers: Sequence[Layer], first: tuple[str, list[Layer]] | None
) -> list[Row]:
    """Return a row for every layer of a pair; only the first pair's say what was drawn."""
    rows = []
    for number, layer in enumerate(layers):
        words = [name, *([layer.title] if layer.title else [])]
        if first is not None:
            other = first[1][number].images
            words += distance_words(layer.images, other, first[0], stretched=layer.stretched)
        pictures, values = seen(layer.images, stretched=layer.stretched)
        cells = []
        for place, picture in enumerate(pictures):
            targets = targets_of(drawn.batch, place) if layer.has_targets else Targets()
            image, _ = fit(picture, targets, layer.recipe, (LARGEST, LARGEST))
            texts = [values[place]] if values[place] else []
            if first is None and layer.first:
                row, draws = int(drawn.rows[place]), drawn.draws[layer.view]
                texts += draw_words(layer.recipe, draws, row, drawn.keys)
            cells.append(Cell(image, [*map(Line, texts)]))
        rows.append(Row(cells, words))
    return rows


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
    unit, words = (1, "") if stretched else (255, "/255")
    difference = unit * (images.nan_to_num() - first.nan_to_num()).abs()
    if not difference.any():
        return [f"equals {name.partition('/')[2]}"]
    if difference.max() < _TOLD:
        return [f"differs from {name.partition('/')[2]}", f"by less than {_TOLD}{words}"]
    return [
        f"differs from {name.partition('/')[2]}",
        f"by {_number(float(difference.mean()))}{words} on average,",
        f"{_number(float(difference.max()))}{words} at most",
    ]


def _number(value: float) -> str:
    return f"{value:.3f}" if value >= _TOLD else f"less than {_TOLD}"
