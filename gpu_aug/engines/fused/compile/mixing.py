"""Operations that mix images, added to programs."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from gpu_aug.draws import Params
from gpu_aug.engines.fused.compile.pending import Pending
from gpu_aug.engines.fused.compile.program import Mix
from gpu_aug.ops.mix import CutMix, Mixing, MixUp


def mix(operation: MixUp | CutMix, pending: Pending, params: Params, exact: bool) -> None:
    """Let the partner come into each image that is mixed.

    Both are written first, unless their program is empty.

    Args:
        operation: Which of the two.
        pending: The programs.
        params: What was drawn, and ``partners``.
        exact: Whether images are whole 8-bit values.
    """
    rows = operation.mixed(params, params["partners"])
    places = np.flatnonzero(rows)
    if not len(places):
        return
    partners = params["partners"][places, 0]
    _write_all(pending, rows, partners, torch.uint8 if exact else None)
    others = [pending.images[partner] for partner in partners]
    if isinstance(operation, MixUp):
        pending.share[places] = operation.shares(params)[places]
        pending.blend(places, others, Mix.BLEND)
        return
    start = params["start"][places]
    pending.window[places] = np.concatenate([start, start + params["shape"][places]], axis=1)
    pending.blend(places, others, Mix.CUT)


def mosaic(operation: Mixing, step: Any) -> Callable[[Pending, Params, bool], None]:
    """Return what carries out a mixing operation that makes an image of more than two."""

    def add(pending: Pending, params: Params, exact: bool) -> None:
        rows = operation.mixed(params, params["partners"])
        places = np.flatnonzero(rows)
        if not len(places):
            return
        sources = operation.sources(params["partners"])[places].ravel()
        _write_all(pending, rows, sources, torch.uint8 if exact else torch.float32)
        made = step(list(pending.images), params)
        pending.replace(places, [made[place] for place in places])

    return add


def _write_all(pending: Pending, rows: Any, partners: Any, dtype: torch.dtype | None) -> None:
    """Write the images that are mixed, and those that they are mixed with."""
    needed = rows.copy()
    needed[partners] = True
    pending.write(needed, dtype)
