"""Images beside what training sees of them in several epochs, or what every decoder and engine makes of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from types import MappingProxyType
from typing import Any

import torch
from PIL import Image

from dali_pipes.choose import available_decoders
from dali_pipes.errors import LoaderError, MissingPackageError
from dali_pipes.image_fields import ImageFields, as_image_fields
from dali_pipes.loader import Loader
from dali_pipes.options import Setup
from dali_pipes.preview.cells import LARGEST, SMALL, fit, original_cells, targets_of
from dali_pipes.preview.chosen_batches import Drawer, Drawn, Layer, layers_of, seen
from dali_pipes.preview.draw_descriptions import draw_words
from dali_pipes.preview.page import FAINT, Cell, Line, Page, Row, lay_out
from dali_pipes.preview.pairs import DECODERS, ENGINES, Decoder, pair_name
from gpu_aug import EngineError, Recipe, Schedule, Targets, Views
from gpu_aug.engines.choose import EngineChoice
from readers import Sample
from readers.dataset import IndexedDataset
from readers.plural import counted

MOST_ACROSS = 8
"""Draws beside each other; further ones stand below."""

HINT = "sizes are height x width; small pictures are enlarged without smoothing; below each stands what was drawn for it"


@dataclass(frozen=True)
class Preview:
    """What is shown, and what is not.

    Attributes:
        page: Pictures and texts at their places.
        missing: Why a pair of decoder and engine is not there, by its name.
    """

    page: Page
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def picture(self) -> Image.Image:
        """The page, drawn."""
        return self.page.render()


def preview_images(
    dataset: IndexedDataset,
    recipe: Recipe | Views | Schedule,
    indices: Sequence[int],
    *,
    seed: int = 0,
    epochs: Sequence[int] = range(4),
    engine: EngineChoice = "auto",
    on_epoch: Callable[[int], None] = lambda _: None,
    **options: Any,
) -> Preview:
    """Draw images as they are, and beside each what training with this seed sees in several epochs.

    Below each picture stands what was drawn for it. Masks, boxes and keypoints are drawn on the pictures where the
    data has them. Of several views every one has a row of its own, and so have several images of a sample and maps.

    Args:
        dataset: Images; what is drawn depends on an image's place in it.
        recipe: With a fixed size of its results. Of a schedule each epoch has its own.
        indices: Which samples are shown, each once; they decode, see `sound_samples`.
        seed: Seed of the order and of the draws.
        epochs: Which epochs are shown.
        engine: As for Loader, which chooses for "auto".
        on_epoch: Called with each epoch before it is drawn.
        options: `channels`, `depth`, `images` and `maps` of Loader, for other images than RGB of 8 bits.

    Raises:
        BadSampleError: One of the samples cannot be read or decoded.
        LoaderError: There is nothing to draw.

    Example:
        >>> from dali_pipes.preview import preview_images
        >>> preview = preview_images(open_dataset("photos/"), Recipe.imagenet_train(size=64), range(3), epochs=[0, 7])
        >>> preview.picture.save("preview.png")
    """
    if not len(indices) or not len(epochs):
        raise LoaderError(
            f"a preview needs samples and epochs, got {len(indices)} and {len(epochs)}: give at least one of each"
        )
    schedule = recipe if isinstance(recipe, Schedule) else Schedule({0: recipe})
    with image_loader(dataset, schedule, indices, seed=seed, engine=engine, **options) as loader:
        drawer = Drawer(loader)
        columns = []
        for epoch in epochs:
            on_epoch(epoch)
            columns.append(_cells(drawer.draw(indices, epoch), drawer.setup))
        heading = [f"{about(loader)}; seed {seed}; {_named(epochs)}", HINT]
    first = as_views(schedule.at(epochs[0])).recipes[0]
    originals = originals_of(dataset, drawer.setup.fetcher.images, first, indices)
    rows: list[Row] = []
    for place, own in enumerate(originals):
        for layer in range(len(columns[0][place])):
            drawn = [cells[place][layer] for cells in columns]
            for start in range(0, len(drawn), MOST_ACROSS):
                original = own[layer] if layer < len(own) and not start else None
                rows.append(Row([original, *drawn[start : start + MOST_ACROSS]]))
    return Preview(lay_out(rows, heading))


def image_loader(
    dataset: IndexedDataset,
    recipe: Schedule,
    indices: Sequence[int],
    *,
    seed: int,
    **options: Any,
) -> Loader:
    """Return a loader that makes images as training does: in its order where images are mixed with their neighbours."""
    mixes = any(as_views(one).group > 1 for one in recipe.recipes)
    return Loader(
        dataset,
        recipe,
        batch_size=len(indices),
        device="cpu" if options.get("engine") == "albumentations" else "auto",
        seed=seed,
        shuffle="global" if mixes else "none",
        last_batch="partial",
        dtype=torch.float32,
        on_bad_sample="replace",  # a neighbour that is bad; `Drawer` refuses one that is asked for
        **options,
    )


def originals_of(
    dataset: IndexedDataset, images: ImageFields, recipe: Recipe, indices: Sequence[int]
) -> list[list[Cell]]:
    """Return the images of each sample as they are, about as high as those that the recipe makes of them."""
    height = min(max(recipe.fixed_size[0], SMALL), LARGEST)
    return [
        original_cells(sample, images, recipe, (height, LARGEST), dataset.class_names)
        for sample in dataset.fetch(list(indices))
        if isinstance(sample, Sample)  # what is bad was refused before
    ]


def as_views(recipe: Recipe | Views) -> Views:
    """Return a recipe as one view."""
    return recipe if isinstance(recipe, Views) else Views([recipe])


def about(loader: Loader) -> str:
    """Say what makes the pictures."""
    return f"engine {loader.engine} on {loader.device}, decoder {loader.decoder}"


def _named(epochs: Sequence[int]) -> str:
    if len(epochs) == 1:
        return f"epoch {epochs[0]}"
    in_a_row = list(epochs) == list(range(epochs[0], epochs[0] + len(epochs)))
    return f"epochs {f'{epochs[0]} to {epochs[-1]}' if in_a_row else ', '.join(map(str, epochs))}"


def _cells(drawn: Drawn, setup: Setup) -> list[list[Cell]]:
    """Return what was made of each sample, by layer."""
    cells: list[list[Cell]] = [[] for _ in drawn.rows]
    for layer in layers_of(drawn, setup):
        title = f"epoch {drawn.epoch}" + (f", {layer.title}" if layer.title else "")
        pictures, values = seen(layer.images, stretched=layer.stretched)
        for place, row in enumerate(drawn.rows.tolist()):
            targets = targets_of(drawn.batch, place) if layer.has_targets else Targets()
            image, size = fit(pictures[place], targets, layer.recipe, (LARGEST, LARGEST))
            about = f"{title}: {size}" + (f", {values[place]}" if values[place] else "")
            words = []
            if layer.first:
                words = draw_words(layer.recipe, drawn.draws[layer.view], row, drawn.keys)
                if targets.boxes is not None:
                    words.append(counted(len(targets.boxes), "box"))
            cells[place].append(Cell(image, [Line(about, FAINT), *map(Line, words)]))
    return cells


_LEAST_SHOWN = 0.001  # of 255; smaller differences are written as "less than" this


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
    if difference.max() < _LEAST_SHOWN:
        return [f"differs from {name.partition('/')[2]}", f"by less than {_LEAST_SHOWN}{words}"]
    return [
        f"differs from {name.partition('/')[2]}",
        f"by {_number(float(difference.mean()))}{words} on average,",
        f"{_number(float(difference.max()))}{words} at most",
    ]


def _number(value: float) -> str:
    return f"{value:.3f}" if value >= _LEAST_SHOWN else f"less than {_LEAST_SHOWN}"
