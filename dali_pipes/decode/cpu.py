"""The decode stage of images on the CPU: it renders canvases from encoded images or from decoded parts."""

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
"""Names in the statistics for images that our JPEG decoder does not decode, by its status."""


def render_encoded(
    fetcher: Fetcher, renderer: JpegRenderer, fetched: Fetched, canvases: Canvases, start: int
) -> Decoded:
    """Decode images, read their targets and render their canvases; see threads.Render.

    Args:
        fetcher: Replaces bad samples.
        renderer: Renders the sound JPEGs of the step.
        fetched: Rows of the step.
        canvases: The canvases of these rows.
        start: Index in the step of the first row.
    """
    statuses = renderer.render(start, start + len(fetched), canvases)
    is_rendered = statuses == GOOD
    if not is_rendered.all():
        fetcher.recorder.count_full_decodes(_kinds_of_others(fetched, statuses))
    return render_rest(fetcher, fetched, canvases, is_rendered)


def _kinds_of_others(fetched: Fetched, statuses: NDArray[np.int32]) -> list[str]:
    """Return for each image that our JPEG decoder did not decode the name of its kind, for the statistics."""
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
    """Render canvases from the decoded part of each image, `needed_part`; images without a part are decoded here."""
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
    """Decode all images of some rows, of any format, and render their canvases; see threads.Render."""
    return render_rest(fetcher, fetched, canvases, np.zeros(len(fetched), bool))


def render_rest(
    fetcher: Fetcher, fetched: Fetched, canvases: Canvases, is_rendered: NDArray[np.bool_]
) -> Decoded:
    """Read the targets of rows that are rendered already, and render the other rows from their full images.

    Args:
        fetcher: Replaces bad samples.
        fetched: The rows.
        canvases: The canvases of these rows.
        is_rendered: bool [n], the rows whose canvases are complete.
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
    """Decode the images of a row, read its targets and render its canvases; a bad sample is replaced by its substitute.

    Args:
        fetcher: Replaces bad samples.
        fetched: The step.
        fetched_row: Index of the row in `fetched`.
        canvases: The canvases; those of a row without a sample become black.
        canvas_row: Index of the row in `canvases`.

    Returns:
        `fetched` itself, or a one-row step with the substitute if the sample is bad; and the targets of the row.
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
    """Decode all images of a row's sample, which must have one size.

    Returns:
        One array [height, width, channels] per image, uint8 or float32; see decode_stored.

    Raises:
        DecodeError: An image does not decode, has another format than the loader expects, or another size than the first image.
    """
    height, width = fetched.sizes[row].tolist()
    size, data = (height, width), fetched.data[row]
    if images.is_usual and data is not None:  # fast path: does not create a Sample object
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
    """Render the canvases of all views from an image of a sample.

    Args:
        image: [height, width, channels], the image or a part of it.
        fetched: The step with the row's draws.
        of_row: Index of the row in `fetched`.
        canvases: The canvases to write.
        row: Index of the row in `canvases`.
        origin: Top and left of the part in the full image, in pixels.
        number: Index of the image among the images of the sample.
    """
    pixels = torch.from_numpy(image)
    outs = canvases.of(row, fetched.draws, of_row, number)
    for drawn, out in zip(fetched.draws, outs, strict=True):
        resample(pixels, drawn.crops, of_row, out, origin=origin)
