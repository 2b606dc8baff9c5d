"""Operations that mix images, added to programs."""

import numpy as np
import torch
from numpy.typing import NDArray

from gpu_aug.draws import Params
from gpu_aug.engines.fused.compile.other_engines import NO_KERNEL, Apply
from gpu_aug.engines.fused.compile.pending import Pending, Rows
from gpu_aug.engines.fused.compile.program import Mix
from gpu_aug.ops.mix import CutMix, Mixing, MixUp

_READS_OTHERS = "{name} reads other images as they are before it"


def mix(operation: MixUp | CutMix, pending: Pending, params: Params, exact: bool) -> None:
    """Let the partner come into each image that is mixed.

    Both are written first, unless their program is empty.

    Args:
        operation: Which of the two.
        pending: The programs.
        params: Drawn parameters, and ``partners``.
        exact: Whether images are whole 8-bit values.
    """
    rows = operation.mixed(params, params["partners"])
    places = np.flatnonzero(rows)
    if not len(places):
        return
    partners = params["partners"][places, 0]
    needed = _with(rows, partners)
    pending.split(operation, needed, {_READS_OTHERS: needed}, torch.uint8 if exact else None)
    others = [pending.images[partner] for partner in partners]
    if isinstance(operation, MixUp):
        pending.program.share[places] = operation.shares(params)[places]
        pending.blend(places, others, Mix.BLEND)
        return
    start = params["start"][places]
    pending.program.window[places] = np.concatenate(
        [start, start + params["shape"][places]], axis=1
    )
    pending.blend(places, others, Mix.CUT)


def make_mosaic(
    operation: Mixing, apply: Apply, pending: Pending, params: Params, exact: bool
) -> None:
    """Carry out a mixing operation that makes an image of more than two, by a step of another engine."""
    rows = operation.mixed(params, params["partners"])
    places = np.flatnonzero(rows)
    if not len(places):
        return
    sources = operation.sources(params["partners"])[places].ravel()
    needed = _with(rows, sources)
    pending.split(operation, needed, {NO_KERNEL: needed}, torch.uint8 if exact else torch.float32)
    made = apply(list(pending.images), params)
    pending.replace(places, [made[place] for place in places])


def _with(rows: Rows, partners: NDArray[np.int64]) -> Rows:
    """The images to be mixed, and their partners."""
    needed = rows.copy()
    needed[partners] = True
    return needed
