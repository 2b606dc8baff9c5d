"""A picture of what every engine makes of the same images with the same draws."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from rich.console import Console
from rich.text import Text

from bench.arguments import check_writable, recipe_from
from bench.errors import BenchError
from bench.images import Repeated, sound_samples
from bench.ours import DECODERS, ENGINES, Decoder, Engine, row_name
from dali_pipes import Loader, MissingPackageError, available_decoders, cpu
from gpu_aug import EngineError, Normalize, Recipe
from readers import Dataset, Sample, open_dataset, read_header

_FONT_SIZE = 15
_GAP = 6
_MARGIN = 250  # for the names of the rows
_HEADING = 28  # for the names of the samples
_INK = (230, 230, 230)
_PAPER = (24, 24, 24)

Picture = NDArray[np.uint8]
"""uint8 [height, width, 3]."""


@dataclass(frozen=True)
class Line:
    """One row of the grid: a few words in its margin, and its cells."""

    words: list[str]
    cells: Sequence[Picture]


def draw_preview(source: str, recipe: str, out: Path, *, count: int, seed: int) -> None:
    """Write the grid: originals in the first row, then a row for every decoder and engine.

    Raises:
        BenchError: Nothing can be drawn, or not there.
    """
    check_writable(out)
    if count < 1:
        raise BenchError(f"count must be 1 or more, got {count}: leave it out to get 6")
    if out.suffix.lower() not in (".png", ".jpg", ".jpeg", ".webp"):
        raise BenchError(f"a picture's name must end in .png, .jpg or .webp, got {out}")
    console = Console()
    dataset = open_dataset(source)
    samples, left_out = sound_samples(dataset, most=count)
    if not samples:
        raise BenchError(f"{source} has no image that decodes, for example {left_out[0]}")
    parsed = recipe_from(recipe)
    lines = [Line(["original"], [_letterboxed(_decoded(sample), parsed) for sample in samples])]
    lines += _engine_lines(dataset, samples, parsed, seed, console)
    grid([sample.key for sample in samples], lines).save(out)
    console.print(f"written: {out}", soft_wrap=True)


def grid(keys: Sequence[str], lines: Sequence[Line]) -> Image.Image:
    """Lay out rows of cells, all of one size, with the keys above and the words to the left."""
    height, width = lines[0].cells[0].shape[:2]
    size = (
        _MARGIN + len(keys) * (width + _GAP),
        _HEADING + len(lines) * (height + _GAP),
    )
    canvas = Image.new("RGB", size, _PAPER)
    pen = ImageDraw.Draw(canvas)
    font = ImageFont.load_default(_FONT_SIZE)
    for column, key in enumerate(keys):
        left = _MARGIN + column * (width + _GAP)
        pen.text((left, _GAP), _shortened(key, width, font), _INK, font)
    for row, line in enumerate(lines):
        top = _HEADING + row * (height + _GAP)
        pen.multiline_text((_GAP, top + _GAP), "\n".join(line.words), _INK, font)
        for column, cell in enumerate(line.cells):
            canvas.paste(Image.fromarray(cell), (_MARGIN + column * (width + _GAP), top))
    return canvas


def _engine_lines(
    dataset: Dataset, samples: Sequence[Sample], recipe: Recipe, seed: int, console: Console
) -> list[Line]:
    """Run every pair that can run; the words say how far it is from the first pair."""
    same_few = Repeated(dataset, np.array([sample.index for sample in samples], np.int64))
    lines: list[Line] = []
    first: tuple[str, torch.Tensor] | None = None
    for decoder, engine in ((decoder, engine) for decoder in DECODERS for engine in ENGINES):
        name = row_name(decoder, engine)
        try:
            images = _augmented(same_few, len(samples), recipe, seed, decoder, engine)
        except (EngineError, MissingPackageError) as error:
            console.print(Text(f"{name} is not drawn: {error}", style="yellow"), soft_wrap=True)
            continue
        words = [name, *(_distance(images, *first) if first else [])]
        first = first or (name, images)
        lines.append(Line(words, _pictures(images)))
    return lines


def _augmented(
    dataset: Dataset, count: int, recipe: Recipe, seed: int, decoder: Decoder, engine: Engine
) -> torch.Tensor:
    """The first batch, float32 [count, 3, height, width] in [0, 1] on the CPU."""
    reason = available_decoders()[decoder]
    if reason:
        raise MissingPackageError(reason)
    with Loader(
        dataset,
        recipe,
        batch_size=count,
        device="cpu" if engine == "albumentations" else "auto",
        decoder=decoder,
        engine=engine,
        seed=seed,
        shuffle="none",
        dtype=torch.float32,
    ) as loader:
        images = next(iter(loader)).images.cpu()
    for operation in recipe.operations:
        if isinstance(operation, Normalize):
            mean, std = torch.tensor(operation.mean), torch.tensor(operation.std)
            images = images * std.view(3, 1, 1) + mean.view(3, 1, 1)
    return images


def _distance(images: torch.Tensor, first_name: str, first: torch.Tensor) -> list[str]:
    difference = 255 * (images - first).abs()
    return [
        f"differs from {first_name.partition('/')[2]}",
        f"by {difference.mean():.3f}/255 on average,",
        f"{difference.max():.2f}/255 at most",
    ]


def _pictures(images: torch.Tensor) -> list[Picture]:
    pixels = (images.clamp(0, 1) * 255).round().to(torch.uint8).permute(0, 2, 3, 1)
    return list(pixels.contiguous().numpy())


def _decoded(sample: Sample) -> Picture:
    data = sample.image or b""
    header = read_header(data)
    return cpu.decode(data, (header.height, header.width))


def _letterboxed(picture: Picture, recipe: Recipe) -> Picture:
    """Fit a whole image into a cell, with paper around it."""
    height, width = recipe.fixed_size
    image = Image.fromarray(picture)
    image.thumbnail((width, height))
    cell = Image.new("RGB", (width, height), _PAPER)
    cell.paste(image, ((width - image.width) // 2, (height - image.height) // 2))
    return np.asarray(cell)


def _shortened(key: str, width: int, font: ImageFont.FreeTypeFont | ImageFont.ImageFont) -> str:
    """Keep the end of a key, which tells samples apart."""
    text = key
    while font.getlength(text) > width and len(key) > 1:
        key = key[1:]
        text = f"…{key}"
    return text
