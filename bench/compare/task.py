"""What every contestant of a comparison gets, and what it makes of it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from bench.compare.clip_plan import Clip, ClipPlan
from gpu_aug import Recipe
from readers import Dataset

Kind = Literal["engine", "baseline", "ceiling"]


class Unable(Exception):  # noqa: N818 - an answer, not a fault
    """A contestant that cannot do this recipe on this machine; the text says why."""


@dataclass(frozen=True)
class Task:
    """The same images or clips, recipe and threads for all contestants. It is pickled for their processes.

    Attributes:
        dataset: What our loader reads: the samples over and over, so that no epoch ends while the clock runs (the
            end of an epoch drains every pipeline).
        files: The same images or videos, each once, for those who read files.
        labels: A class number for each file.
        recipe: What each carries out as its users would write it.
        batch_size: Samples in every batch.
        device: Where the batch has to arrive.
        num_threads: Worker threads or worker processes.
        seed: Seed of the shuffling and the draws.
        dtype: Data type of every batch; each pipeline chooses its own memory format.
        plan: Which frames of which video make each clip; None where samples are images.
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
    plan: ClipPlan | None = None

    @property
    def num_frames(self) -> int:
        """Frames of a clip; 0 where samples are images."""
        return self.plan.num_frames if self.plan else 0

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of every batch: [batch_size, 3, height, width], of clips [batch_size, T, 3, height, width]."""
        clip = (self.num_frames,) if self.plan else ()
        return (self.batch_size, *clip, 3, *self.recipe.fixed_size)

    @property
    def clips(self) -> ClipPlan:
        """The plan, where samples are clips."""
        assert self.plan is not None
        return self.plan


@dataclass(frozen=True)
class Pipeline:
    """A contestant at work.

    Attributes:
        batches: Batches on the device, without an end; closing or dropping it stops threads and workers.
        note: What a reader has to know to compare fairly.
        num_ahead: Batches that it prepares while it is not asked.
        num_discard: Batches to take before its rate is steady again after a pause.
        shown: Returns the clips of the last batch, where a reader chooses them by itself.
    """

    batches: Iterator[torch.Tensor]
    note: str
    num_ahead: int
    num_discard: int
    shown: Callable[[], Sequence[Clip]] | None = None
