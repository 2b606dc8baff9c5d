"""Sizes and durations of the steps of a visit, and their clock."""

from collections.abc import Callable, Mapping, Sized
from dataclasses import dataclass
from functools import partial

import torch

from bench.compare.timer import time_slice
from bench.gpu.rows import Row
from bench.timing.usage import Busy

Size = tuple[int, int]
"""Height and width."""

_NUM_SLICES = 3


@dataclass(frozen=True)
class Scale:
    """Sizes and durations.

    Attributes:
        device: The device of all work.
        batch_size: Images in a batch where nothing else is said.
        side: Height and width of augmented images.
        seconds: The length of one measurement.
        pictures: For each size of photographs, how many there are and in batches of how many they are decoded.
    """

    device: torch.device
    batch_size: int
    side: int
    seconds: float
    pictures: Mapping[Size, tuple[int, int]]

    @property
    def on_gpu(self) -> bool:
        """Whether this is the visit and no rehearsal."""
        return self.device.type == "cuda"


def scale_for(*, rehearse: bool) -> Scale:
    """The scale of a visit, or of a rehearsal on the CPU.

    Raises:
        RuntimeError: A visit without a GPU.
    """
    if rehearse:
        few = {(375, 500): (4, 4), (720, 1280): (2, 2)}
        return Scale(torch.device("cpu"), 8, 32, 0.02, few)
    if not torch.cuda.is_available():
        raise RuntimeError("torch sees no CUDA device; without one there is only --rehearse")
    sizes = {(375, 500): (256, 256), (1080, 1920): (48, 64)}
    return Scale(torch.device("cuda", 0), 256, 224, 0.6, sizes)


def finish(device: torch.device) -> None:
    """Wait until the device has done everything."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def measure_rate(
    row: Row,
    next_batch: Callable[[], Sized],
    scale: Scale,
    *,
    discard: int = 2,
    seconds: float | None = None,
) -> None:
    """Fill in a row with the items per second of three slices, and how busy the engines of the GPU were.

    Args:
        row: The row.
        next_batch: Hands over a batch; its length is its number of items.
        scale: The device, and how long.
        discard: Batches to take first: at least as many as are prepared ahead, so that they are not counted.
        seconds: How long, where it is not the scale's.
    """
    seconds = (seconds or scale.seconds) / _NUM_SLICES
    runs = []
    with Busy(scale.device) as busy:
        for number in range(_NUM_SLICES):
            taken = time_slice(
                next_batch,
                seconds=seconds,
                discard=discard if number == 0 else 0,
                finish=partial(finish, scale.device),
            )
            runs.append(taken.images_per_second)
    row.facts |= busy.found
    row.put_runs(runs)
