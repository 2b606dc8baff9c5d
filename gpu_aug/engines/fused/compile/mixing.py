"""Operations that mix images, added to programs."""

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
    """Mix its partner into each image that is mixed.

    Both are written first, unless their program is empty.

    Args:
        operation: Which of the two.
        pending: The programs.
        params: What was drawn, and ``partners``.
        is_whole: Whether images are whole 8-bit values.
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
    """Carry out a mixing operation that makes an image of more than two, by a step of another engine."""
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
    """Return the images that are mixed or that others are mixed with."""
    needed = rows.copy()
    needed[partners] = True
    return needed
