"""A picture for choosing augmentations: images as they are, and as training will see them in several epochs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from PIL import Image

from dali_pipes.errors import LoaderError
from dali_pipes.loader import Loader
from dali_pipes.preview.canvas import to_pictures, viewable
from dali_pipes.preview.cells import LARGEST, SMALL, fit, original_cell, targets_of
from dali_pipes.preview.drawn import Drawer, Drawn
from dali_pipes.preview.grid import Cell, Row, lay_out
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
) -> Preview:
    """Draw images as they are, and beside each what training with this seed sees in several epochs.

    Below each picture stands what was drawn for it. Masks, boxes and keypoints are drawn on the pictures where the
    data has them. Of several views every one has a row of its own.

    Args:
        dataset: Images; what is drawn depends on an image's place in it.
        recipe: With a fixed size of its results. Of a schedule each epoch has its own.
        indices: Which samples are shown, each once; they decode, see `sound_samples`.
        seed: Seed of the order and of the draws.
        epochs: Which epochs are shown.
        engine: As for Loader, which chooses for "auto".
        on_epoch: Called with each epoch before it is drawn.

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
    with image_loader(dataset, schedule, indices, seed=seed, engine=engine) as loader:
        drawer = Drawer(loader)
        columns = []
        for epoch in epochs:
            on_epoch(epoch)
            columns.append(_cells(drawer.draw(indices, epoch)))
        heading = [f"{about(loader)}; seed {seed}; {_named(epochs)}", HINT]
    first = as_views(schedule.at(epochs[0])).recipes[0]
    originals = original_cells(dataset, first, indices)
    rows: list[Row] = []
    for place, original in enumerate(originals):
        for view in range(len(columns[0][place])):
            drawn = [cells[place][view] for cells in columns]
            for start in range(0, len(drawn), MOST_ACROSS):
                first_cell = None if view or start else original
                rows.append(Row([first_cell, *drawn[start : start + MOST_ACROSS]]))
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


def original_cells(dataset: IndexedDataset, recipe: Recipe, indices: Sequence[int]) -> list[Cell]:
    """Return images as they are, about as high as those that the recipe makes of them."""
    height = min(max(recipe.fixed_size[0], SMALL), LARGEST)
    samples = dataset.fetch(list(indices))
    return [
        original_cell(sample, recipe, (height, LARGEST), dataset.class_names)
        for sample in samples
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


def _cells(drawn: Drawn) -> list[list[Cell]]:
    """Return what was made of each sample, by view."""
    many = len(drawn.views) > 1
    cells: list[list[Cell]] = [[] for _ in drawn.rows]
    for view, (recipe, draws) in enumerate(zip(drawn.views.recipes, drawn.draws, strict=True)):
        pictures = to_pictures(viewable(drawn.batch.views[view], recipe))
        for place, row in enumerate(drawn.rows.tolist()):
            # Targets are those of the first view.
            targets = Targets() if view else targets_of(drawn.batch, place)
            image, size = fit(pictures[place], targets, recipe, (LARGEST, LARGEST))
            title = f"epoch {drawn.epoch}" + (
                f", view {view + 1} of {len(drawn.views)}" if many else ""
            )
            words = draw_words(recipe, draws, row, drawn.keys)
            if targets.boxes is not None:
                words.append(counted(len(targets.boxes), "box"))
            texts = [Line(f"{title}: {size}", FAINT), *map(Line, words)]
            cells[place].append(Cell(image, texts))
    return cells
