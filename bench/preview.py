"""A picture of what every engine makes of the same images with the same draws."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from rich.console import Console
from rich.text import Text

from bench.annotate import Picture, annotate
from bench.arguments import check_writable, recipe_from
from bench.compare.images import Repeated, sound_samples
from bench.compare.ours import DECODERS, ENGINES, Decoder, Engine, row_name
from bench.errors import BenchError
from bench.source import open_at_random
from dali_pipes import Batch, Loader, MissingPackageError, available_decoders
from dali_pipes.decode import opencv
from dali_pipes.targets import KINDS, TargetReader
from gpu_aug import BoxParams, EngineError, Normalize, Recipe, Resize, Targets, Views, apply
from gpu_aug.errors import TargetsError
from gpu_aug.targets.boxes import to_xyxy
from readers import Dataset, Sample, read_header

FONT_SIZE = 15
_GAP = 6
_CELL_MAX = 320  # height and width of a cell; larger pictures are shrunk
_MARGIN = 250  # for the names of the rows
_HEADING = 28  # for the names of the samples
INK = (230, 230, 230)
PAPER = (24, 24, 24)


@dataclass(frozen=True)
class Line:
    """One row of the grid: a few words in its margin, and its cells."""

    words: list[str]
    cells: Sequence[Picture]


def draw_preview(
    source: str, recipe: str, out: Path, *, count: int, seed: int, format: str | None = None
) -> None:
    """Write the grid: originals in the first row, then a row for every decoder and engine.

    Of a recipe of several views the first pair has a row for each, and the others one for the first. Masks, boxes and keypoints are drawn on the
    pictures where the data has them.

    Raises:
        BenchError: Nothing can be drawn, or not there.
    """
    check_writable(out)
    if count < 1:
        raise BenchError(f"count must be 1 or more, got {count}: leave it out to get 6")
    if out.suffix.lower() not in (".png", ".jpg", ".jpeg", ".webp"):
        raise BenchError(f"a picture's name must end in .png, .jpg or .webp, got {out}")
    console = Console()
    dataset = open_at_random(source, format)
    samples, left_out = sound_samples(dataset, most=count)
    if not samples:
        raise BenchError(f"{source} has no image that decodes, for example {left_out[0]}")
    for fault in left_out:
        console.print(Text(f"left out: {fault}", style="yellow"), soft_wrap=True)
    parsed = recipe_from(recipe)
    views = parsed if isinstance(parsed, Views) else Views([parsed])
    largest = np.array([view.fixed_size for view in views.recipes]).max(axis=0)
    cell = np.minimum(largest, _CELL_MAX)
    originals = [_original(sample, views.recipes[0], cell) for sample in samples]
    lines = [Line(["original"], [_in_cell(picture, cell) for picture in originals])]
    lines += [
        Line(line.words, [_in_cell(picture, cell) for picture in line.cells])
        for line in _engine_lines(dataset, samples, views, seed, console)
    ]
    grid([sample.key for sample in samples], lines).save(out)
    console.print(f"written: {out}", soft_wrap=True)


def grid(keys: Sequence[str], lines: Sequence[Line]) -> Image.Image:
    """Lay out rows of cells, all of one size, with the keys above and the words to the left."""
    height, width = lines[0].cells[0].shape[:2]
    size = (
        _MARGIN + len(keys) * (width + _GAP),
        _HEADING + len(lines) * (height + _GAP),
    )
    canvas = Image.new("RGB", size, PAPER)
    pen = ImageDraw.Draw(canvas)
    font = ImageFont.load_default(FONT_SIZE)
    for column, key in enumerate(keys):
        left = _MARGIN + column * (width + _GAP)
        pen.text((left, _GAP), shortened(key, width, font), INK, font)
    for row, line in enumerate(lines):
        top = _HEADING + row * (height + _GAP)
        pen.multiline_text((_GAP, top + _GAP), "\n".join(line.words), INK, font)
        for column, cell in enumerate(line.cells):
            canvas.paste(Image.fromarray(cell), (_MARGIN + column * (width + _GAP), top))
    return canvas


def _engine_lines(
    dataset: Dataset, samples: Sequence[Sample], views: Views, seed: int, console: Console
) -> list[Line]:
    """Run every pair that can run; the words say how far it is from the first pair."""
    same_few = Repeated(dataset, np.array([sample.index for sample in samples], np.int64))
    lines: list[Line] = []
    first: tuple[str, list[torch.Tensor]] | None = None
    for decoder, engine in ((decoder, engine) for decoder in DECODERS for engine in ENGINES):
        name = row_name(decoder, engine)
        try:
            with console.status(f"drawing {name}"):  # nothing where there is no terminal
                batch = _augmented(same_few, len(samples), views, seed, decoder, engine)
        except (EngineError, MissingPackageError) as error:
            console.print(Text(f"{name} is not drawn: {error}", style="yellow"), soft_wrap=True)
            continue
        images = [
            viewable(view.cpu(), recipe)
            for view, recipe in zip(batch.views, views.recipes, strict=True)
        ]
        for place, pictures in enumerate(images if first is None else images[:1]):
            words = [name, *([f"view {place + 1} of {len(images)}"] if len(images) > 1 else [])]
            words += _distance(images, *first) if first else []
            cells = to_pictures(pictures)
            if place == 0:  # targets are those of the first view
                cells = _with_targets(cells, batch, views.recipes[0])
            lines.append(Line(words, cells))
        first = first or (name, images)
    return lines


def _augmented(
    dataset: Dataset, count: int, views: Views, seed: int, decoder: Decoder, engine: Engine
) -> Batch:
    """The first batch, float32."""
    reason = available_decoders()[decoder]
    if reason:
        raise MissingPackageError(reason)
    with Loader(
        dataset,
        views if len(views) > 1 else views.recipes[0],
        batch_size=count,
        device="cpu" if engine == "albumentations" else "auto",
        decoder=decoder,
        engine=engine,
        seed=seed,
        shuffle="none",
        dtype=torch.float32,
    ) as loader:
        return next(iter(loader))


def viewable(images: torch.Tensor, recipe: Recipe) -> torch.Tensor:
    """Undo Normalize, so that values are in [0, 1] again, as far as they were."""
    for leaf in reversed(recipe.leaves):
        if isinstance(leaf, Normalize):
            mean, std = torch.tensor(leaf.mean), torch.tensor(leaf.std)
            images = images * std.view(3, 1, 1) + mean.view(3, 1, 1)
    return images


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
        masks = [np.where(mask != 0, place + 1, 0) for place, mask in enumerate(masks)]
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


def to_pictures(images: torch.Tensor) -> list[Picture]:
    """Turn floats [N, 3, height, width] in [0, 1] into uint8 [height, width, 3]."""
    pixels = (images.clamp(0, 1) * 255).round().to(torch.uint8).permute(0, 2, 3, 1)
    return list(pixels.contiguous().numpy())


def _in_cell(picture: Picture, size: NDArray[np.int64]) -> Picture:
    """Fit a picture into a cell of height and width, with paper around it."""
    height, width = size.tolist()
    image = Image.fromarray(picture)
    image.thumbnail((width, height))
    cell = Image.new("RGB", (width, height), PAPER)
    cell.paste(image, ((width - image.width) // 2, (height - image.height) // 2))
    return np.asarray(cell)


def shortened(key: str, width: int, font: ImageFont.FreeTypeFont | ImageFont.ImageFont) -> str:
    """Keep the end of a key, which tells samples apart."""
    text = key
    while font.getlength(text) > width and len(key) > 1:
        key = key[1:]
        text = f"…{key}"
    return text
