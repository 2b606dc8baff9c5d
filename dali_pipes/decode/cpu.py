"""The decode stage of images on the CPU: canvases rendered from encoded images, or from parts that are decoded already."""

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from dali_pipes.decode import opencv
from dali_pipes.decode.jpeg_batch import JpegRenderer
from dali_pipes.errors import DecodeError
from dali_pipes.jpeg.status import GOOD, REASONS
from dali_pipes.samples.targets import Found
from dali_pipes.stages.augment import Augmenter
from dali_pipes.stages.canvases import Canvases
from dali_pipes.stages.data import NOTHING, Decoded, Fetched, needed_part
from dali_pipes.stages.fetch import Fetcher
from dali_pipes.stages.rendering import Rendering
from gpu_aug.errors import TargetsError
from gpu_aug.resampling.crop_and_resize import resample
from readers import HeaderError, read_header

_NO_RENDERING = Rendering([], Canvases((), 1, pinned=False), [])
"""That of a step all of whose rows another decoder takes; making canvases of no rows takes 0.1 ms."""

_KINDS = {number: f"JPEG ({reason})" for number, reason in enumerate(REASONS)}


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
        fetcher.recorder.count_whole_images(_whole_images(fetched, statuses))
    return render_rest(fetcher, fetched, canvases, is_rendered)


def _whole_images(fetched: Fetched, statuses: NDArray[np.int32]) -> list[str]:
    """Kinds of the images that our JPEG decoder leaves to another one."""
    kinds = []
    for row in np.flatnonzero((statuses != GOOD) & fetched.kept()).tolist():
        with suppress(
            HeaderError
        ):  # it was damaged after it was indexed: the other decoder says so
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
    """Render canvases from the decoded `needed_part` of each row of the step; where there is none, decode here."""
    origins, _ = needed_part(fetched.draws)
    is_rendered = np.zeros(len(fetched), bool)
    for row in np.flatnonzero(fetched.kept()).tolist():
        part = parts[start + row]
        if part is not None:
            render_views(
                part, fetched, row, canvases, row, (int(origins[row, 0]), int(origins[row, 1]))
            )
            is_rendered[row] = True
    return render_rest(fetcher, fetched, canvases, is_rendered)


def render_rest(
    fetcher: Fetcher, fetched: Fetched, canvases: Canvases, is_rendered: NDArray[np.bool_]
) -> Decoded:
    """Read the targets of the rows that are rendered, and render the others from whole images.

    Args:
        fetcher: Deals with bad samples.
        fetched: The rows.
        canvases: Their canvases.
        is_rendered: bool [n].
    """
    found, rows = [NOTHING] * len(fetched), fetched
    others = np.flatnonzero(~is_rendered).tolist()
    with_targets = fetcher.rows_with_targets(fetched, np.flatnonzero(is_rendered).tolist())
    for row in sorted([*others, *with_targets]):
        one, of_one = fetched, row
        if is_rendered[row]:
            try:
                found[row] = fetcher.read_targets(fetched, row)
                continue
            except TargetsError as error:
                one, of_one = fetcher.lose(fetched, row, error), 0
        one, found[row] = render_whole(fetcher, one, of_one, canvases, row)
        if one is not fetched:
            rows = rows.replaced(row, one)
    return Decoded(rows, found)


def render_whole(
    fetcher: Fetcher, fetched: Fetched, of_row: int, canvases: Canvases, row: int
) -> tuple[Fetched, Found]:
    """Decode a whole image and render its canvases, black ones where it is lost.

    Args:
        fetcher: Deals with bad samples.
        fetched: Has the image.
        of_row: The image's row there.
        canvases: Have its canvases.
        row: The image's row there.

    Returns:
        The rows as they were given or, where the sample is bad, the only row that takes its place; its targets.
    """
    image, found, sound, of_row = decode_whole(fetcher, fetched, of_row)
    if image is None:
        canvases.blacken(row, sound.draws, of_row)
    else:
        render_views(image, sound, of_row, canvases, row)
    return sound, found


def start_rendering(
    fetcher: Fetcher, augmenter: Augmenter, fetched: Fetched, rows: Collection[int]
) -> Rendering:
    """Let threads render the canvases of rows, each of its whole image."""
    if not rows and len(fetched):
        return _NO_RENDERING
    ordered = sorted(rows)
    canvases = augmenter.engines_of(fetched).canvases(len(ordered))
    render = partial(render_whole, fetcher, fetched)
    submit = augmenter.workers.pool.submit
    tasks = [submit(render, row, canvases, number) for number, row in enumerate(ordered)]
    return Rendering(ordered, canvases, tasks)


def decode_whole(
    fetcher: Fetcher, fetched: Fetched, row: int
) -> tuple[NDArray[np.uint8] | None, Found, Fetched, int]:
    """Decode a whole image and read its targets; one that is bad gives way to its substitute.

    Returns:
        uint8 [height, width, 3], or None where the sample is lost; its targets; and the rows with the number of
        the row that it is: as they were given, or the only row that takes the place of a bad one.
    """
    while (data := fetched.data[row]) is not None:
        height, width = fetched.sizes[row].tolist()
        try:
            return (
                opencv.decode(data, (height, width)),
                fetcher.read_targets(fetched, row),
                fetched,
                row,
            )
        except (DecodeError, TargetsError) as error:
            fetched, row = fetcher.lose(fetched, row, error), 0
    return None, NOTHING, fetched, row


def read_targets(
    fetcher: Fetcher, pool: ThreadPoolExecutor, decoded: Decoded, rows: Sequence[int]
) -> tuple[Decoded, list[int]]:
    """Read the targets of rows whose images are decoded elsewhere.

    Returns:
        The rows with their targets, those that have bad ones lost or replaced; and which these are.
    """
    fetched, found, bad = decoded.fetched, list(decoded.found), []

    def read(row: int) -> Found | TargetsError:
        try:
            return fetcher.read_targets(decoded.fetched, row)
        except TargetsError as error:
            return error

    wanted = fetcher.rows_with_targets(fetched, rows)
    for row, read_there in zip(wanted, pool.map(read, wanted), strict=True):
        if isinstance(read_there, TargetsError):
            fetched = fetched.replaced(row, fetcher.lose(fetched, row, read_there))
            bad.append(row)
        else:
            found[row] = read_there
    return Decoded(fetched, found), bad


def render_views(
    image: NDArray[np.uint8],
    fetched: Fetched,
    of_row: int,
    canvases: Canvases,
    row: int,
    origin: tuple[int, int] = (0, 0),
) -> None:
    """Render the canvas of every view from an image, or from a part of it that begins at `origin`."""
    pixels = torch.from_numpy(image)
    outs = canvases.of(row, fetched.draws, of_row)
    for drawn, out in zip(fetched.draws, outs, strict=True):
        resample(pixels, drawn.crops, of_row, out, origin=origin)
