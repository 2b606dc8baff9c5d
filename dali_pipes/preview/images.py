"""A picture of what every engine makes of the same images with the same draws."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from dali_pipes.batch import Batch
from dali_pipes.choose import available_decoders
from dali_pipes.decode import opencv
from dali_pipes.errors import MissingPackageError
from dali_pipes.loader import Loader
from dali_pipes.preview.annotate import annotate
from dali_pipes.preview.canvas import (
    FONT_SIZE,
    INK,
    PAPER,
    Picture,
    shortened,
    to_pictures,
    viewable,
)
from dali_pipes.preview.pairs import DECODERS, ENGINES, Decoder, Engine, pair_name
from dali_pipes.targets import KINDS, TargetReader
from gpu_aug import BoxParams, EngineError, Recipe, Resize, Targets, Views, apply
from gpu_aug.errors import TargetsError
from gpu_aug.targets.boxes import to_xyxy
from readers import Dataset, Sample, read_header
from readers.dataset import IndexedDataset

_GAP = 6
_CELL_MAX = 320  # height and width of a cell; larger pictures are shrunk
_MARGIN = 250  # for the names of the rows
_HEADING = 28  # for the names of the samples


@dataclass(frozen=True)
class Row:
    """One row of the grid: a few words in its margin, and its cells."""

    words: list[str]
    cells: Sequence[Picture]


@dataclass(frozen=True)
class Preview:
    """A picture, and what it does not show.

    Attributes:
        picture: The originals in the first row, then a row for every decoder and engine.
        missing: Why a pair of decoder and engine has no row, by its name.
    """

    picture: Image.Image
    missing: dict[str, str]


def preview_images(
    dataset: IndexedDataset,
    recipe: Recipe | Views,
    indices: Sequence[int],
    *,
    seed: int = 0,
    on_pair: Callable[[str], None] = lambda _: None,
) -> Preview:
    """Draw originals, and below them what every decoder and engine makes of them with the same draws.

    Of a recipe of several views the first pair has a row for each, and the others one for the first. Masks, boxes
    and keypoints are drawn on the pictures where the data has them.

    Args:
        dataset: Images.
        recipe: With a fixed size of its results.
        indices: Which samples are drawn; they decode, see `sound_samples`.
        seed: Seed of the draws.
        on_pair: Called with the name of each pair before it is drawn.

    Raises:
        DecodeError: One of the samples does not decode.

    Example:
        >>> from dali_pipes.preview import preview_images
        >>> preview = preview_images(open_dataset("photos/"), Recipe.imagenet_train(size=64), range(3))
        >>> preview.picture.save("preview.png")
    """
    few = dataset.take(indices)
    samples = [sample for sample in few.fetch(range(len(few))) if isinstance(sample, Sample)]
    views = recipe if isinstance(recipe, Views) else Views([recipe])
    largest = np.array([view.fixed_size for view in views.recipes]).max(axis=0)
    cell = np.minimum(largest, _CELL_MAX)
    originals = [_original(sample, views.recipes[0], cell) for sample in samples]
    rows, missing = _engine_rows(few, views, seed, on_pair)
    rows = [Row(["original"], originals), *rows]
    fitted = [Row(row.words, [_in_cell(picture, cell) for picture in row.cells]) for row in rows]
    return Preview(grid([sample.key for sample in samples], fitted), missing)


def grid(keys: Sequence[str], rows: Sequence[Row]) -> Image.Image:
    """Lay out rows of cells, all of one size, with the keys above and the words to the left."""
    height, width = rows[0].cells[0].shape[:2]
    size = (
        _MARGIN + len(keys) * (width + _GAP),
        _HEADING + len(rows) * (height + _GAP),
    )
    canvas = Image.new("RGB", size, PAPER)
    pen = ImageDraw.Draw(canvas)
    font = ImageFont.load_default(FONT_SIZE)
    for column, key in enumerate(keys):
        left = _MARGIN + column * (width + _GAP)
        pen.text((left, _GAP), shortened(key, width, font), INK, font)
    for number, row in enumerate(rows):
        top = _HEADING + number * (height + _GAP)
        pen.multiline_text((_GAP, top + _GAP), "\n".join(row.words), INK, font)
        for column, cell in enumerate(row.cells):
            canvas.paste(Image.fromarray(cell), (_MARGIN + column * (width + _GAP), top))
    return canvas


def _engine_rows(
    dataset: Dataset, views: Views, seed: int, on_pair: Callable[[str], None]
) -> tuple[list[Row], dict[str, str]]:
    """Run every pair that can run; the words say how far it is from the first pair."""
    rows: list[Row] = []
    missing: dict[str, str] = {}
    first: tuple[str, list[torch.Tensor]] | None = None
    for decoder, engine in product(DECODERS, ENGINES):
        name = pair_name(decoder, engine)
        on_pair(name)
        try:
            batch = _augmented(dataset, views, seed, decoder, engine)
        except (EngineError, MissingPackageError) as error:
            missing[name] = str(error)
            continue
        images = [
            viewable(view.cpu(), recipe)
            for view, recipe in zip(batch.views, views.recipes, strict=True)
        ]
        for number, pictures in enumerate(images if first is None else images[:1]):
            words = [name, *([f"view {number + 1} of {len(images)}"] if len(images) > 1 else [])]
            words += _distance(images, *first) if first else []
            cells = to_pictures(pictures)
            if number == 0:  # targets are those of the first view
                cells = _with_targets(cells, batch, views.recipes[0])
            rows.append(Row(words, cells))
        first = first or (name, images)
    return rows, missing


def _augmented(
    dataset: Dataset, views: Views, seed: int, decoder: Decoder, engine: Engine
) -> Batch:
    """All samples as one batch, float32."""
    reason = available_decoders()[decoder]
    if reason:
        raise MissingPackageError(reason)
    with Loader(
        dataset,
        views if len(views) > 1 else views.recipes[0],
        batch_size=len(dataset),
        device="cpu" if engine == "albumentations" else "auto",
        decoder=decoder,
        engine=engine,
        seed=seed,
        shuffle="none",
        dtype=torch.float32,
    ) as loader:
        return next(iter(loader))


def _with_targets(pictures: list[Picture], batch: Batch, recipe: Recipe) -> list[Picture]:
    """Draw the targets of a batch on its pictures."""
    masks: list[Any] = [None] * len(pictures)
    if isinstance(batch.masks, torch.Tensor):
        masks = list(batch.masks[:, None].cpu().numpy().clip(0))  # -1 where a sample has none
    elif batch.masks is not None:
        masks = [own.cpu().numpy() for own in batch.masks]
    drawn = []
    for row, picture in enumerate(pictures):
        own = {
            name: values[row].cpu().numpy()
            for name in ("boxes", "box_labels", "keypoints")
            if (values := getattr(batch, name)) is not None
        }
        drawn.append(_annotated(picture, recipe, Targets(masks=masks[row], **own)))
    return drawn


def _original(sample: Sample, recipe: Recipe, cell: NDArray[np.int64]) -> Picture:
    """The whole image with its targets, so small that it fits into a cell."""
    data = sample.image or b""
    header = read_header(data)
    picture = opencv.decode(data, (header.height, header.width))
    size = np.array(picture.shape[:2])
    small = np.maximum(np.rint(size * min(1, *(cell / size))), 1).astype(int)
    shrink = Recipe([Resize(small.tolist())], boxes=recipe.boxes, keypoints=recipe.keypoints)
    sample_of = {"image": picture}
    try:
        found = TargetReader(recipe, frozenset(KINDS)).read(sample.fields, (size[0], size[1]))
        names = ("boxes", "box_labels", "keypoints", "masks")
        sample_of |= {
            name: value for name in names if (value := getattr(found.targets, name)) is not None
        }
    except TargetsError:
        pass  # the loader says below what is wrong with them
    [shrunk] = apply(shrink, [sample_of])
    [pixels] = to_pictures(shrunk.pop("image")[None])
    return _annotated(pixels, recipe, Targets(**shrunk))


def _annotated(picture: Picture, recipe: Recipe, targets: Targets) -> Picture:
    height, width = picture.shape[:2]
    boxes, points = targets.boxes, targets.keypoints
    if boxes is not None:
        boxes = to_xyxy(boxes, recipe.boxes or BoxParams(), (height, width))
    if points is not None and recipe.keypoints is not None and recipe.keypoints.pixel_index:
        points = points + 0.5
    masks = [] if targets.masks is None else list(targets.masks)
    if len(masks) > 1:  # instances: each is a colour of its own
        masks = [np.where(mask != 0, number + 1, 0) for number, mask in enumerate(masks)]
    return annotate(
        picture, masks=masks, boxes=boxes, box_labels=targets.box_labels, keypoints=points
    )


def _distance(views: list[torch.Tensor], first_name: str, first: list[torch.Tensor]) -> list[str]:
    pairs = zip(views, first, strict=True)
    difference = torch.cat([255 * (mine - other).abs().flatten() for mine, other in pairs])
    return [
        f"differs from {first_name.partition('/')[2]}",
        f"by {difference.mean():.3f}/255 on average,",
        f"{difference.max():.2f}/255 at most",
    ]


def _in_cell(picture: Picture, size: NDArray[np.int64]) -> Picture:
    """Fit a picture into a cell of height and width, with paper around it."""
    height, width = size.tolist()
    image = Image.fromarray(picture)
    image.thumbnail((width, height))
    cell = Image.new("RGB", (width, height), PAPER)
    cell.paste(image, ((width - image.width) // 2, (height - image.height) // 2))
    return np.asarray(cell)
