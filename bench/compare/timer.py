"""The one timer: how many images a pipeline hands over in a slice of time."""

from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

import torch

from gpu_aug.compiled.clock import clock

Item = TypeVar("Item")


def rotated(items: Sequence[Item], number: int) -> list[Item]:
    """Rotate the contestants by the number of the round, so that no contestant always follows the same one."""
    first = number % max(len(items), 1)
    return [*items[first:], *items[:first]]


@dataclass(frozen=True, slots=True)
class Slice:
    """The measurement of one turn of a pipeline. Seconds in which our own functions were compiled are left out.

    Attributes:
        images: Images handed over between the first and the last moment of the slice.
        seconds: The time between those moments, to the end of the last whole batch.
        wait_seconds: The part of it spent waiting for the next batch.
    """

    images: int
    seconds: float
    wait_seconds: float

    @property
    def images_per_second(self) -> float:
        """Its rate."""
        return self.images / self.seconds


@dataclass(frozen=True, slots=True)
class Rate:
    """Images per second over several slices."""

    runs: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle of the runs."""
        return median(self.runs)

    def to_dict(self) -> dict[str, object]:
        """Median, smallest, largest and every single run, rounded to a tenth of an image."""
        return {
            "median": round(self.median, 1),
            "min": round(min(self.runs), 1),
            "max": round(max(self.runs), 1),
            "runs": [round(run, 1) for run in self.runs],
        }


def time_slice(
    next_batch: Callable[[], Sized], *, seconds: float, discard: int, finish: Callable[[], None]
) -> Slice:
    """Take batches for a while and count their images.

    Args:
        next_batch: Hands over one batch; its length is its number of images.
        seconds: How long to go on; the slice ends with the first batch after that.
        discard: Batches to take before the clock starts, so that what a pipeline prepared ahead
            while others had their turn is not counted.
        finish: Waits until everything handed over has really been computed (a device synchronisation).
    """
    for _ in range(discard):
        next_batch()
    finish()
    began = clock()
    images, waited, elapsed = 0, 0.0, 0.0
    while elapsed < seconds:
        asked = clock()
        images += len(next_batch())
        waited += clock() - asked
        elapsed = clock() - began
    finish()
    return Slice(images, clock() - began, waited)


def synchronise(device: torch.device) -> None:
    """Wait until the device has done everything."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
