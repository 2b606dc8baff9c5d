"""Many windows in one compiled call."""

from typing import Any

import numpy as np

from dali_pipes.jpeg.window import decode_window
from dali_pipes.jpeg.window import scratch_bytes as scratch_bytes
from gpu_aug.compiled.jit import kernel, signed


@kernel
def decode_rows(
    inputs: Any, windows: Any, sizes: Any, shrink: Any, outs: Any, scratch: Any, statuses: Any
) -> None:
    """Decode windows one after the other; see ``decode.py``.

    Args:
        inputs: int64 [n, 2]: address and length of the encoded bytes.
        windows: int32 [n, 4].
        sizes: int32 [n, 2].
        shrink: int32 [n].
        outs: int64 [n, 2]: address of the first pixel, bytes from one row to the next.
        scratch: uint8 [scratch_bytes(...)].
        statuses: int32 [n], written.
    """
    no_offsets = np.empty(0, np.int64)
    for row in range(len(statuses)):
        top, left, height, width = (
            windows[row, 0],
            windows[row, 1],
            windows[row, 2],
            windows[row, 3],
        )
        statuses[row] = decode_window(
            inputs[row, 0],
            inputs[row, 1],
            (signed(top), signed(left), signed(height), signed(width)),
            (signed(sizes[row, 0]), signed(sizes[row, 1])),
            signed(shrink[row]),
            no_offsets,
            outs[row, 0],
            outs[row, 1],
            scratch,
        )
