"""The decode stage on the CPU: canvases drawn from encoded images, or from parts that are decoded already."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from dali_pipes.decode.jpeg import draw_rows
from dali_pipes.pipeline.augment import Sheets
from dali_pipes.pipeline.fetch import Work, Workshop, needed_part
from gpu_aug.resampling.decoded import resample


def draw_encoded(
    workshop: Workshop, work: Work, sheets: Sheets, start: int, stop: int, *, fast: bool = False
) -> None:
    """Decode the images at some places and draw their canvases; see finish.Draw."""
    drawn = draw_rows(work, sheets, start, stop, fast=fast)
    for place in range(start, stop):
        if not drawn[place - start] or not workshop.read_targets(work, sheets.rows[place]):
            draw_one(workshop, work, sheets, place)


def draw_parts(
    workshop: Workshop,
    work: Work,
    parts: Sequence[NDArray[np.uint8] | None],
    sheets: Sheets,
    start: int,
    stop: int,
) -> None:
    """Draw canvases from the decoded `needed_part` of each row; where there is none, decode here."""
    origins, _ = needed_part(work.draws)
    for place in range(start, stop):
        row = sheets.rows[place]
        part = parts[row]
        if part is None or work.data[row] is None or not workshop.read_targets(work, row):
            draw_one(workshop, work, sheets, place)
        else:
            draw_views(part, work, sheets, place, (int(origins[row, 0]), int(origins[row, 1])))


def draw_one(workshop: Workshop, work: Work, sheets: Sheets, place: int) -> None:
    """Decode the whole image at a place and draw its canvases; if it is lost they become black."""
    image = workshop.decode(work, sheets.rows[place])
    if image is None:
        sheets.blacken(place)
    else:
        draw_views(image, work, sheets, place)


def draw_views(
    image: NDArray[np.uint8],
    work: Work,
    sheets: Sheets,
    place: int,
    origin: tuple[int, int] = (0, 0),
) -> None:
    """Draw the canvas of every view from an image, or from a part of it that begins at `origin`."""
    pixels = torch.from_numpy(image)
    for view, draws in enumerate(work.draws):
        windows, row = draws.windows, sheets.rows[place]
        resample(pixels, windows, row, sheets.canvas(place, view), origin=origin)
