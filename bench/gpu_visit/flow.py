"""How fast batches flow out of something that works ahead, when it is asked for one after the other."""

import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import torch

_SLICES = 3
_CALLS_MIN = 3


def settle(device: torch.device) -> None:
    """Wait for the current stream, as reading a loss does: what others prepare meanwhile goes on."""
    if device.type == "cuda":
        torch.cuda.current_stream(device).synchronize()


def slice_rate(
    call: Callable[[], Any],
    num: int,
    seconds: float,
    device: torch.device,
    *,
    discard: int = 0,
    settle_every: int = 1,
) -> float:
    """Images per second of a call that hands over ``num`` of them, over one slice of time.

    What lies ready at the beginning is taken first and not counted, and nobody waits for the device as a whole: at
    the end as much is under way as at the beginning, so that working ahead neither flatters nor harms.

    Args:
        call: Hands over a batch, or takes one and makes a step of it.
        num: Images in it.
        seconds: How long; the slice ends with the batch after that.
        device: Whose current stream is waited for.
        discard: Batches to take before the clock starts: at least as many as are prepared ahead.
        settle_every: Calls after which the current stream is waited for.
    """
    for _ in range(discard):
        call()
    settle(device)
    began, calls = time.perf_counter(), 0
    while calls < _CALLS_MIN or time.perf_counter() - began < seconds:
        call()
        calls += 1
        if calls % settle_every == 0:
            settle(device)
    settle(device)
    return num * calls / (time.perf_counter() - began)


def flow_rate(
    call: Callable[[], Any],
    num: int,
    seconds: float,
    device: torch.device,
    *,
    discard: int,
    settle_every: int = 1,
) -> dict[str, Any]:
    """``images_per_second`` and ``runs`` of three slices that follow each other, of so many seconds together.

    The other arguments are those of ``slice_rate``.
    """
    rate = partial(slice_rate, call, num, seconds / _SLICES, device, settle_every=settle_every)
    return summary([rate(discard=discard if number == 0 else 0) for number in range(_SLICES)])


def summary(runs: list[float]) -> dict[str, Any]:
    """``images_per_second``, the median, and ``runs``, rounded to a tenth of an image."""
    return {
        "images_per_second": round(median(runs), 1),
        "runs": [round(run, 1) for run in runs],
    }
