"""Draw images before augmentation, next to training's images of several epochs or of each decoder and engine."""

from collections.abc import Sequence

from dali_pipes.arguments.options import ImageOptions
from dali_pipes.errors import LoaderError
from dali_pipes.loader import Loader
from dali_pipes.preview.chosen_batches import (
    Drawn,
    Layer,
    as_schedule,
    distance_words,
    draw_chosen,
    draw_pairs,
    layers_of,
    preview_loader,
)
from dali_pipes.preview.page import FAINT, Cell, Line, Preview, Row
from dali_pipes.preview.pictures import (
    LARGEST,
    SMALL,
    fit,
    original_cells,
    show_values,
    size_words,
)
from gpu_aug import Recipe, Schedule, Views
from gpu_aug.engines.choose import EngineChoice
from readers import Sample
from readers.datasets.dataset import IndexedDataset

MOST_ACROSS = 8
"""Number of epochs in a row of the page; further ones are in the next row."""

HINT = "sizes are height x width; small pictures are enlarged without smoothing; captions describe the draws"


def preview_images(
    dataset: IndexedDataset,
    recipe: Recipe | Views | Schedule,
    indices: Sequence[int],
    *,
    seed: int = 0,
    epochs: Sequence[int] = range(4),
    engine: EngineChoice = "auto",
    images: ImageOptions = ImageOptions(),  # noqa: B008 - frozen
) -> Preview:
    """Draw images before augmentation, and next to each the images that training with this seed sees in several epochs.

    Captions describe the draws. Masks, boxes and keypoints are drawn on the pictures if the data has them. Each view
    has its own row; so have each image of a sample with several images, and each map.

    Args:
        dataset: A dataset of images; the draws depend on an image's index.
        recipe: A recipe whose results have a fixed size; a schedule has one for each epoch.
        indices: The samples to show, without duplicates; they must decode, see `take_decodable_samples`.
        seed: Seed of the order and of the draws.
        epochs: The epochs to show.
        engine: The engine, as for Loader.
        images: Options for the images of a sample, as for Loader.

    Raises:
        BadSampleError: A sample cannot be read or decoded.
        LoaderError: `indices` or `epochs` is empty.

    Example:
        >>> from dali_pipes.preview import preview_images
        >>> preview = preview_images(open_dataset("photos/"), Recipe.imagenet_train(size=64), range(3), epochs=[0, 7])
        >>> preview.picture.save("preview.png")
    """
    if not len(indices) or not len(epochs):
        raise LoaderError(
            f"a preview needs samples and epochs, got {len(indices)} and {len(epochs)}: give at least one of each"
        )
    schedule = as_schedule(recipe)
    with preview_loader(dataset, schedule, seed=seed, engine=engine, images=images) as loader:
        columns = []
        for epoch in epochs:
            drawn = draw_chosen(loader, indices, epoch)
            columns.append([_cells(drawn, layer, f"epoch {epoch}") for layer in layers_of(drawn)])
        shown = ", ".join(map(str, epochs))
        heading = [f"{about(loader)}; seed {seed}; epochs {shown}", HINT]
    originals = _originals(dataset, drawn, indices)
    rows: list[Row] = []
    for sample, own in enumerate(originals):
        for number, layers in enumerate(zip(*columns, strict=False)):
            cells = [layer[sample] for layer in layers]
            for start in range(0, len(cells), MOST_ACROSS):
                original = own[number] if number < len(own) and not start else None
                rows.append(Row([original, *cells[start : start + MOST_ACROSS]]))
    return Preview(rows, heading)


def _originals(dataset: IndexedDataset, drawn: Drawn, indices: Sequence[int]) -> list[list[Cell]]:
    """Return for each sample its images before augmentation, about as high as the recipe's results."""
    first = drawn.views.recipes[0]
    height = min(max(first.fixed_size[0], SMALL), LARGEST)
    return [
        original_cells(sample, drawn.fetcher.images, first, (height, LARGEST), dataset.class_names)
        for sample in dataset.fetch(list(indices))
        if isinstance(sample, Sample)  # bad samples have raised before
    ]


def about(loader: Loader) -> str:
    """Describe the engine and decoder of a loader."""
    return f"engine {loader.engine} on {loader.device}, decoder {loader.decoder}"


def _cells(drawn: Drawn, layer: Layer, title: str = "") -> list[Cell]:
    """Return the cell of each sample in a layer; its caption has the title, the size and the draws."""
    cells = []
    for sample, values in enumerate(layer.images):
        picture, words = show_values(values, stretched=layer.stretched)
        targets = drawn.targets[sample] if layer.view == 0 else None
        about = [part for part in (title, layer.title, size_words(picture, words)) if part]
        lines = [Line(", ".join(about), FAINT), *map(Line, drawn.words(layer, sample))]
        cells.append(Cell(fit(picture, targets=targets, recipe=layer.recipe), lines))
    return cells


def preview_engines(
    dataset: IndexedDataset,
    recipe: Recipe | Views | Schedule,
    indices: Sequence[int],
    *,
    seed: int = 0,
    epoch: int = 0,
    images: ImageOptions = ImageOptions(),  # noqa: B008 - frozen
) -> Preview:
    """Draw images before augmentation, and below them the results of every decoder and engine with the same draws.

    The text next to a row describes its difference from the first pair. Each view has its own row. Masks, boxes and
    keypoints are drawn on the pictures if the data has them.

    Args:
        dataset: A dataset of images.
        recipe: A recipe whose results have a fixed size.
        indices: The samples to show, without duplicates; they must decode, see `take_decodable_samples`.
        seed: Seed of the draws.
        epoch: The epoch of the draws.
        images: Options for the images of a sample, as for Loader.

    Raises:
        BadSampleError: A sample cannot be read or decoded.
        LoaderError: `indices` is empty.

    Example:
        >>> from dali_pipes.preview import preview_engines
        >>> preview = preview_engines(open_dataset("photos/"), Recipe.imagenet_train(size=64), range(3))
        >>> preview.picture.save("engines.png")
    """
    if not len(indices):
        raise LoaderError("a preview needs samples, got none: give at least one")
    schedule = as_schedule(recipe)
    drawn, missing = draw_pairs(dataset, schedule, indices, epoch, seed=seed, images=images)
    (first_name, first), *_ = drawn.items()
    originals = _originals(dataset, first, indices)
    rows = [Row(cells, [Line("original")]) for cells in zip(*originals, strict=True)]
    first_layers = list(layers_of(first))
    for name, one in drawn.items():
        for layer, other in zip(layers_of(one), first_layers, strict=True):
            title = [Line(name)]
            if name != first_name:
                stretched = layer.stretched
                distance = distance_words(
                    layer.images, other.images, first_name, stretched=stretched
                )
                title.append(Line(distance))
            rows.append(Row(_cells(one, layer), title))
    heading = [f"every decoder and engine, with the same draws; seed {seed}, epoch {epoch}", HINT]
    return Preview(rows, heading, missing)
