"""A contestant of a comparison, and the settings that all contestants share."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

import torch

from bench.compare.timer import Slice
from dali_pipes.stats import Stats
from gpu_aug import Recipe
from readers import Dataset

Kind = Literal["engine", "baseline", "ceiling"]
Share = dict[str, float | None]

STAGES = ("read", "decode", "augment", "copy")

_OUR_STAGES = {
    "read": ("read", "header"),
    "decode": ("decode",),
    "augment": ("draw", "augment", "targets"),
    "copy": ("transfer", "hand_over"),
}


class Unable(Exception):  # noqa: N818 - an answer, not a fault
    """A contestant that cannot do this recipe on this machine; the text says why."""


@dataclass(frozen=True)
class Footing:
    """The shared settings of all contestants: the same images, recipe and threads.

    Attributes:
        dataset: What our loader reads: the images over and over, so that no epoch ends while the
            clock runs (the end of an epoch drains every pipeline).
        files: The same images, each once, for those who read files.
        labels: A class number for each file.
        recipe: What each carries out as its users would write it.
        batch_size: Images in every batch, which is [batch_size, 3, height, width].
        device: Where the batch has to arrive.
        num_threads: Worker threads or worker processes.
        seed: Seed of the shuffling and the draws.
        dtype: Data type of every batch; each pipeline chooses its own memory format.
    """

    dataset: Dataset
    files: list[Path]
    labels: list[int]
    recipe: Recipe
    batch_size: int
    device: torch.device
    num_threads: int
    seed: int
    dtype: torch.dtype = torch.float32

    @property
    def num_frames(self) -> int:
        """Frames of a clip; 0 where samples are images."""
        return 0

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of every batch."""
        clip = (self.num_frames,) if self.num_frames else ()
        return (self.batch_size, *clip, 3, *self.recipe.fixed_size)

    def spread(self, count: int) -> list[Path]:
        """At most so many files, spread evenly over all."""
        count = min(count, len(self.files))
        return [self.files[number * len(self.files) // count] for number in range(count)]


@dataclass(frozen=True)
class Made:
    """The shape and type of a batch, without its pixels."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def of(cls, batch: torch.Tensor) -> "Made":
        """Describe a batch."""
        return cls(tuple(batch.shape), batch.dtype, batch.device)


class _Contestant(Protocol):
    """A pipeline that can be started, asked for batches, left alone for a while and stopped.

    Attributes:
        name: As it is printed.
        kind: Ours, somebody else's, or an upper bound.
        note: What a reader has to know to compare fairly.
        num_ahead: Batches that it prepares while it is not asked.
        num_discard: Batches to take before its rate is steady again after a pause.
    """

    name: str
    kind: Kind
    note: str
    num_ahead: int
    num_discard: int

    def open(self) -> None:
        """Start it.

        Raises:
            Unable: It cannot do the recipe here.
        """

    def share(self) -> Share:
        """Say which part of its work goes into each of STAGES; None where that cannot be known."""

    def close(self) -> None:
        """Stop it and give back threads, processes and memory."""


class Handy(_Contestant, Protocol):
    """A contestant in this process."""

    def next_batch(self) -> torch.Tensor:
        """Take a batch: on the device, with the images along its first axis."""


@runtime_checkable
class Distant(_Contestant, Protocol):
    """A contestant in another process, which has a clock of its own."""

    def made(self) -> Made:
        """The shape and type of its first batch."""

    def turn(self, seconds: float) -> Slice:
        """Let it take batches for so long, after `num_discard` of them."""


Contestant = Handy | Distant


def share_of(seconds: dict[str, float]) -> Share:
    """Turn the seconds of each of STAGES into shares that add up to 1."""
    total = sum(seconds.values())
    if total <= 0:
        return dict.fromkeys(STAGES)
    return {stage: round(seconds[stage] / total, 3) for stage in STAGES}


def stage_seconds(stats: Stats) -> dict[str, float]:
    """Seconds of work of our loader by STAGES, which every contestant knows."""
    return {
        stage: sum(stats.stages[one].busy_seconds for one in ours)
        for stage, ours in _OUR_STAGES.items()
    }
