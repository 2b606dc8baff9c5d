"""A picture of what every decoder and engine makes of the same images with the same draws."""

from collections.abc import Callable, Sequence
from itertools import product

import torch

from dali_pipes.choose import available_decoders
from dali_pipes.errors import LoaderError, MissingPackageError
from dali_pipes.preview.canvas import to_pictures, viewable
from dali_pipes.preview.cells import LARGEST, fit, targets_of
from dali_pipes.preview.drawn import Drawer, Drawn
from dali_pipes.preview.grid import Cell, Row, lay_out
from dali_pipes.preview.images import HINT, Preview, as_views, image_loader, original_cells
from dali_pipes.preview.page import Line
from dali_pipes.preview.pairs import DECODERS, ENGINES, Decoder, Engine, pair_name
from dali_pipes.preview.words import draw_words
from gpu_aug import EngineError, Recipe, Schedule, Targets, Views
from readers.dataset import IndexedDataset


def preview_engines(
    dataset: IndexedDataset,
    recipe: Recipe | Views | Schedule,
    indices: Sequence[int],
    *,
    seed: int = 0,
    epoch: int = 0,
    on_pair: Callable[[str], None] = lambda _: None,
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
    rows = [
        Row(original_cells(dataset, as_views(schedule.at(epoch)).recipes[0], indices), ["original"])
    ]
    missing: dict[str, str] = {}
    first: tuple[str, Drawn] | None = None
    for decoder, engine in product(DECODERS, ENGINES):
        name = pair_name(decoder, engine)
        on_pair(name)
        try:
            drawn = _drawn(dataset, schedule, indices, seed, epoch, decoder, engine)
        except (EngineError, MissingPackageError) as error:
            missing[name] = str(error)
            continue
        rows += _rows(name, drawn, first)
        first = first or (name, drawn)
    heading = [f"every decoder and engine, with the same draws; seed {seed}, epoch {epoch}", HINT]
    return Preview(lay_out(rows, heading), missing)


def _drawn(
    dataset: IndexedDataset,
    recipe: Schedule,
    indices: Sequence[int],
    seed: int,
    epoch: int,
    decoder: Decoder,
    engine: Engine,
) -> Drawn:
    require_decoder(decoder)
    with image_loader(
        dataset, recipe, indices, seed=seed, decoder=decoder, engine=engine
    ) as loader:
        return Drawer(loader).draw(indices, epoch)


def require_decoder(decoder: Decoder) -> None:
    """Refuse a decoder that is not there.

    Raises:
        MissingPackageError: With what is missing.
    """
    if reason := available_decoders()[decoder]:
        raise MissingPackageError(reason)


def _rows(name: str, drawn: Drawn, first: tuple[str, Drawn] | None) -> list[Row]:
    """Return a row for every view of a pair; only the first pair's say what was drawn."""
    rows = []
    for view, recipe in enumerate(drawn.views.recipes):
        images = drawn.batch.views[view]
        words = [name]
        if len(drawn.views) > 1:
            words.append(f"view {view + 1} of {len(drawn.views)}")
        if first is not None:
            other = first[1].batch.views[view]
            words += distance_words(viewable(images, recipe), viewable(other, recipe), first[0])
        cells = []
        for place, picture in enumerate(to_pictures(viewable(images, recipe))):
            targets = Targets() if view else targets_of(drawn.batch, place)
            image, _ = fit(picture, targets, recipe, (LARGEST, LARGEST))
            row = int(drawn.rows[place])
            texts = [] if first else draw_words(recipe, drawn.draws[view], row, drawn.keys)
            cells.append(Cell(image, [*map(Line, texts)]))
        rows.append(Row(cells, words))
    return rows


def distance_words(images: torch.Tensor, first: torch.Tensor, name: str) -> list[str]:
    """Say how far images are from those of the first pair, in 1/255.

    Args:
        images: Float, values that lie in [0, 1] where they can be shown.
        first: Of the same shape.
        name: The first pair's.
    """
    difference = 255 * (images - first).abs()
    if not difference.any():
        return [f"equals {name.partition('/')[2]}"]
    return [
        f"differs from {name.partition('/')[2]}",
        f"by {_number(float(difference.mean()))}/255 on average,",
        f"{_number(float(difference.max()))}/255 at most",
    ]


def _number(value: float) -> str:
    return f"{value:.3f}" if value >= 0.0005 else "less than 0.001"
