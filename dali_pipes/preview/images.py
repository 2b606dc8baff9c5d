"""A picture for choosing augmentations: images as they are, and as training will see them in several epochs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from PIL import Image

from dali_pipes.errors import LoaderError
from dali_pipes.image_fields import ImageFields
from dali_pipes.loader import Loader
from dali_pipes.options import Setup
from dali_pipes.preview.cells import LARGEST, SMALL, fit, original_cells, targets_of
from dali_pipes.preview.drawn import Drawer, Drawn
from dali_pipes.preview.grid import Cell, Row, lay_out
from dali_pipes.preview.layers import layers_of, seen
from dali_pipes.preview.page import FAINT, Line, Page
from dali_pipes.preview.words import draw_words
from gpu_aug import Recipe, Schedule, Targets, Views
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
