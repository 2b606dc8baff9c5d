"""Render on our threads the rows that a GPU decoder leaves out: PNGs, damaged JPEGs, samples with bad targets."""

from collections.abc import Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from dali_pipes.decode import cpu
from dali_pipes.samples.targets import SampleTargets
from dali_pipes.stages.augment import Augmenter, Engines
from dali_pipes.stages.canvas_memory import Canvases, ViewCanvases
from dali_pipes.stages.data import Decoded, Fetched
from dali_pipes.stages.fetch import Fetcher
from dali_pipes.video.render_clip import ClipRenderer
from gpu_aug.errors import TargetsError
from gpu_aug.upload import upload


@dataclass(frozen=True, slots=True)
class RemainingRows:
    """Rows that our threads render, each from its full image.

    Attributes:
        rows: Indices of the rows in the step, ascending.
        canvases: Canvases of these rows.
        tasks: A future per row, with the result of `render_row`: the step, or a one-row step with the row's substitute;
            and the row's targets.
    """

    rows: list[int]
    canvases: Canvases
    tasks: list[Future[tuple[Fetched, SampleTargets]]]

    def wait(self, decoded: Decoded) -> Decoded:
        """Wait until the rows are rendered and return the step with their targets; raises the exception of a thread."""
        fetched, targets = decoded.fetched, list(decoded.targets)
        for row, task in zip(self.rows, self.tasks, strict=True):
            one, targets[row] = task.result()
            if one is not decoded.fetched:
                fetched = fetched.replaced(row, one)
        return Decoded(fetched, targets)

    def put_into(self, views: Sequence[ViewCanvases], engines: Engines) -> None:
        """Upload the canvases of these rows, and put them into the canvases of all rows of the step, in each view."""
        if not self.rows:
            return
        for view, rendered in zip(views, engines.upload(self.canvases), strict=False):
            if isinstance(view, list):
                for row, one in zip(self.rows, rendered, strict=True):
                    view[row] = one
            elif isinstance(rendered, torch.Tensor):
                view.index_copy_(0, upload(torch.tensor(self.rows), view.device), rendered)


def start_rendering(
    fetcher: Fetcher, augmenter: Augmenter, fetched: Fetched, rows: Collection[int]
) -> RemainingRows:
    """Start rendering the canvases of rows (images or clips) on our threads."""
    ordered = sorted(rows)
    canvases = augmenter.engines_of(fetched).canvases(len(ordered))
    if fetcher.clips is None:
        render = partial(cpu.render_row, fetcher, fetched)
    else:
        render = partial(ClipRenderer(fetcher, fetched, ordered).render, fetched)
    submit = augmenter.workers.pool.submit
    tasks = [submit(render, row, canvases, number) for number, row in enumerate(ordered)]
    return RemainingRows(ordered, canvases, tasks)


def settle_rows(
    fetcher: Fetcher,
    augmenter: Augmenter,
    remaining: RemainingRows,
    decoded: Decoded,
    is_on_device: NDArray[np.bool_],
) -> tuple[Decoded, RemainingRows]:
    """Read the targets of the rows that a device decodes, and render all other rows on our threads.

    Args:
        fetcher: Replaces bad samples.
        augmenter: Has the threads.
        remaining: The rows that are rendered already.
        decoded: The result of `remaining.wait`.
        is_on_device: bool [n], the rows that the device decodes; rows with bad targets are set to False.

    Returns:
        The step with all its targets, and the rows that our threads rendered.
    """
    rows = np.flatnonzero(is_on_device).tolist()
    decoded, bad = read_targets(fetcher, augmenter, decoded, rows)
    is_on_device[bad] = False
    others = np.flatnonzero(~is_on_device).tolist()
    if others != remaining.rows:
        remaining = start_rendering(fetcher, augmenter, decoded.fetched, others)
        decoded = remaining.wait(decoded)
    return decoded, remaining


def read_targets(
    fetcher: Fetcher, augmenter: Augmenter, decoded: Decoded, rows: Sequence[int]
) -> tuple[Decoded, list[int]]:
    """Read the targets of rows whose images a device decodes.

    Returns:
        The step with these targets, in which rows with bad targets have no sample or a substitute; and the indices of
        the rows with bad targets.
    """
    fetched, targets, bad = decoded.fetched, list(decoded.targets), []

    def read(row: int) -> SampleTargets | TargetsError:
        try:
            return fetcher.read_targets(decoded.fetched, row)
        except TargetsError as error:
            return error

    wanted = fetcher.rows_with_targets(fetched, rows)
    results = augmenter.workers.pool.map(read, wanted)
    for row, result in zip(wanted, results, strict=True):
        if isinstance(result, TargetsError):
            fetched = fetched.replaced(row, fetcher.replace_row(fetched, row, result))
            bad.append(row)
        else:
            targets[row] = result
    return Decoded(fetched, targets), bad
