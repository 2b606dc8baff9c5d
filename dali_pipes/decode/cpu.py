"""The decode stage of images on the CPU: canvases rendered from encoded images, or from parts that are decoded already."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dali_pipes.decode import opencv
from dali_pipes.decode.jpeg_batch import JpegRenderer
from dali_pipes.decode.stored import decode_stored
from dali_pipes.errors import DecodeError
from dali_pipes.jpeg.status import GOOD, REASONS
from dali_pipes.samples.image_fields import ImageFields
from dali_pipes.samples.targets import SampleTargets
from dali_pipes.stages.canvas_memory import Canvases
from dali_pipes.stages.data import NO_TARGETS, Decoded, Fetched, needed_part
from dali_pipes.stages.fetch import Fetcher
from gpu_aug.errors import TargetsError
from gpu_aug.resampling.crop_and_resize import resample
from readers import HeaderError, read_header

_KINDS = {number: f"JPEG ({reason})" for number, reason in enumerate(REASONS)}
"""By status of our JPEG decoder: how statistics name an image that it does not take."""


def render_encoded(
    fetcher: Fetcher, renderer: JpegRenderer, fetched: Fetched, canvases: Canvases, start: int
) -> Decoded:
    """Decode images and render their canvases; see threads.Render.

    Args:
        fetcher: Deals with bad samples.
        renderer: Renders the sound JPEGs of the step.
        fetched: Rows of the step.
        canvases: Their canvases.
        start: The number of the first row in the step.
    """
    statuses = renderer.render(start, start + len(fetched), canvases)
    is_rendered = statuses == GOOD
    if not is_rendered.all():
        fetcher.recorder.count_full_decodes(_kinds_of_others(fetched, statuses))
    return render_rest(fetcher, fetched, canvases, is_rendered)


def _kinds_of_others(fetched: Fetched, statuses: NDArray[np.int32]) -> list[str]:
    """Name the kinds of the images that our JPEG decoder leaves to another one."""
    kinds = []
    for row in np.flatnonzero((statuses != GOOD) & fetched.has_sample).tolist():
        # A file that was damaged after it was indexed: the other decoder reports it.
        with suppress(HeaderError):
            name = read_header(fetched.data[row] or b"").format
            kinds.append(_KINDS[statuses[row]] if name == "jpeg" else name)
    return kinds


def render_parts(
    parts: Sequence[NDArray[np.uint8] | None],
    fetcher: Fetcher,
    fetched: Fetched,
    canvases: Canvases,
    start: int,
) -> Decoded:
    """Render canvases from the decoded `needed_part` of each row of the step; rows without a part are decoded here."""
    origins, _ = needed_part(fetched.draws)
    is_rendered = np.zeros(len(fetched), bool)
    for row in np.flatnonzero(fetched.has_sample).tolist():
        part = parts[start + row]
        if part is not None:
            origin = int(origins[row, 0]), int(origins[row, 1])
            render_views(part, fetched, row, canvases, row, origin=origin)
            is_rendered[row] = True
    return render_rest(fetcher, fetched, canvases, is_rendered)


def render_images(fetcher: Fetcher, fetched: Fetched, canvases: Canvases, _start: int) -> Decoded:
    """Decode all images of some rows, of any kind, and render their canvases; see threads.Render."""
    return render_rest(fetcher, fetched, canvases, np.zeros(len(fetched), bool))


def render_rest(
    fetcher: Fetcher, fetched: Fetched, canvases: Canvases, is_rendered: NDArray[np.bool_]
) -> Decoded:
    """Read the targets of the rows that are rendered, and render the others from full images.

    Args:
        fetcher: Deals with bad samples.
        fetched: The rows.
        canvases: Their canvases.
        is_rendered: bool [n].
    """
    targets, rows = [NO_TARGETS] * len(fetched), fetched
    others = np.flatnonzero(~is_rendered).tolist()
    with_targets = fetcher.rows_with_targets(fetched, np.flatnonzero(is_rendered).tolist())
    for row in sorted([*others, *with_targets]):
        one, of_one = fetched, row
        if is_rendered[row]:
            try:
                targets[row] = fetcher.read_targets(fetched, row)
                continue
            except TargetsError as error:
                one, of_one = fetcher.replace_row(fetched, row, error), 0
        one, targets[row] = render_row(fetcher, one, of_one, canvases, row)
        if one is not fetched:
            rows = rows.replaced(row, one)
    return Decoded(rows, targets)


def render_row(
    fetcher: Fetcher, fetched: Fetched, fetched_row: int, canvases: Canvases, canvas_row: int
) -> tuple[Fetched, SampleTargets]:
    """Decode the images of a row, read its targets and render its canvases; a bad sample gives way to its substitute.

    Args:
        fetcher: Deals with bad samples.
        fetched: Has the row.
        fetched_row: The row in `fetched`.
        canvases: Have its canvases, which become black if the row has no sample.
        canvas_row: The row in `canvases`.

    Returns:
        The rows as they were given or, where the sample is bad, the only row that replaces it; its targets.
    """
    while fetched.data[fetched_row] is not None:
        try:
            images = _decode_images(fetcher.images, fetched, fetched_row)
            targets = fetcher.read_targets(fetched, fetched_row)
        except (DecodeError, TargetsError) as error:
            fetched, fetched_row = fetcher.replace_row(fetched, fetched_row, error), 0
            continue
        for number, image in enumerate(images):
            render_views(image, fetched, fetched_row, canvases, canvas_row, number=number)
        return fetched, targets
    canvases.blacken(canvas_row, fetched.draws, fetched_row)
    return fetched, NO_TARGETS


def _decode_images(images: ImageFields, fetched: Fetched, row: int) -> list[NDArray[Any]]:
    """Decode all images of a row, which must have one size.

    Returns:
        For each, [height, width, channels], uint8 or float32; see decode_stored.

    Raises:
        DecodeError: An image does not decode, is of another kind, or has another size than the first.
    """
    height, width = fetched.sizes[row].tolist()
    size, data = (height, width), fetched.data[row]
    if images.is_usual and data is not None:  # without an object of the sample
        return [opencv.decode(data, size)]
    sample = fetched.samples[row]
    assert sample is not None
    decoded, payloads = [], images.payloads(sample)
    first = next(iter(payloads))
    for name, data in payloads.items():
        try:
            if name != first:
                _require_size(read_header(data).height, read_header(data).width, size, first)
            usual = images.kind.is_usual
            decoded.append(
                opencv.decode(data, size) if usual else decode_stored(data, size, images.kind)
            )
        except (DecodeError, HeaderError) as error:
            raise DecodeError(f"{name}: {error}" if images.names else str(error)) from error
    return decoded


def _require_size(height: int, width: int, size: tuple[int, int], first: str) -> None:
    if (height, width) != size:
        raise DecodeError(
            f"it is {height}x{width}, but {first} is {size[0]}x{size[1]}: the images of a sample must have one size"
        )


def render_views(
    image: NDArray[Any],
    fetched: Fetched,
    of_row: int,
    canvases: Canvases,
    row: int,
    *,
    origin: tuple[int, int] = (0, 0),
    number: int = 0,
) -> None:
    """Render the canvas of every view from an image of a sample.

    Args:
        image: [height, width, channels], the image or a part of it.
        fetched: Has the draws of the row.
        of_row: The row's number there.
        canvases: Have its canvases.
        row: The row's number there.
        origin: Top and left of the part in the image, in pixels.
        number: Which image of the sample it is.
    """
    pixels = torch.from_numpy(image)
    outs = canvases.of(row, fetched.draws, of_row, number)
    for drawn, out in zip(fetched.draws, outs, strict=True):
        resample(pixels, drawn.crops, of_row, out, origin=origin)
