"""Functions that add operations which mix images to programs."""

import numpy as np
import torch
from numpy.typing import NDArray

from gpu_aug.draws import Params
from gpu_aug.engines.fused.compile.other_engines import NO_KERNEL, Apply
from gpu_aug.engines.fused.compile.pending import Pending, Rows
from gpu_aug.engines.fused.compile.program import Mix
from gpu_aug.ops.mix import CutMix, Mixing, MixUp

# A reason to split; see `Pending.split`.
_READS_OTHERS = "{name} reads other images as they are before it"


def mix(operation: MixUp | CutMix, pending: Pending, params: Params, is_whole: bool) -> None:
    """Add a MixUp or CutMix to the programs of the images that it mixes.

    The images and their partners are written first, unless their programs are empty.

    Args:
        operation: The operation.
        pending: The programs.
        params: Drawn parameters of all images, and ``partners``.
        is_whole: Whether all values are still 8-bit integers.
    """
    rows = operation.mixed(params, params["partners"])
    row_numbers = np.flatnonzero(rows)
    if not len(row_numbers):
        return
    partners = params["partners"][row_numbers, 0]
    needed = _with(rows, partners)
    pending.split(operation, needed, {_READS_OTHERS: needed}, torch.uint8 if is_whole else None)
    images = list(pending.images)  # at once: a row of a tensor takes 2 us
    others = [images[partner] for partner in partners.tolist()]
    if isinstance(operation, MixUp):
        pending.program.share[row_numbers] = operation.shares(params)[row_numbers]
        pending.blend(row_numbers, others, Mix.BLEND)
        return
    start = params["start"][row_numbers]
    pending.program.window[row_numbers] = np.concatenate(
        [start, start + params["shape"][row_numbers]], axis=1
    )
    pending.blend(row_numbers, others, Mix.CUT)


def make_mosaic(
    operation: Mixing, apply: Apply, pending: Pending, params: Params, is_whole: bool
) -> None:
    """Carry out an operation that mixes more than two images, by a step of another engine, and begin new programs."""
    rows = operation.mixed(params, params["partners"])
    row_numbers = np.flatnonzero(rows)
    if not len(row_numbers):
        return
    sources = operation.sources(params["partners"])[row_numbers].ravel()
    needed = _with(rows, sources)
    pending.split(
        operation, needed, {NO_KERNEL: needed}, torch.uint8 if is_whole else torch.float32
    )
    made = apply(list(pending.images), params)
    pending.replace(row_numbers, [made[row] for row in row_numbers])


def _with(rows: Rows, partners: NDArray[np.int64]) -> Rows:
    """Return a mask of the images that are mixed or that are the partner of one."""
    needed = rows.copy()
    needed[partners] = True
    return needed
