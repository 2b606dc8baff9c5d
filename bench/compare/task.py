"""Define the task of every contestant in a comparison."""

from dataclasses import dataclass
from pathlib import Path

import torch

from bench.compare.clips import ClipPlan
from bench.compare.contract import Kind as Kind
from bench.compare.contract import Pipeline as Pipeline
from bench.compare.contract import Unable as Unable
from gpu_aug import Recipe
from readers import Dataset


@dataclass(frozen=True)
class Task:
    """The images or clips, recipe and threads that all contestants get; it is pickled for their processes.

    Attributes:
        dataset: The data for our loader: the samples are repeated, so that no epoch ends during a measurement (the end
            of an epoch drains every pipeline).
        files: The path of each image or video, once, for contestants that read files.
        labels: A class number for each file.
        recipe: The recipe; each contestant runs it as its users would write it.
        batch_size: Count of samples per batch.
        device: The device of the batches.
        num_threads: Count of worker threads or processes.
        seed: Seed of shuffling and draws.
        dtype: Data type of every batch; each pipeline chooses its own memory format.
        plan: The frames and videos of the clips; None if samples are images.
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
        """Frames of a clip; 0 if samples are images."""
        return self.plan.num_frames if self.plan else 0

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of every batch: [batch_size, 3, height, width]; for clips [batch_size, T, 3, height, width]."""
        clip = (self.num_frames,) if self.plan else ()
        return (self.batch_size, *clip, 3, *self.recipe.fixed_size)

    def check_batch(self, batch: torch.Tensor) -> None:
        """Raise if a batch does not have the required form.

        Raises:
            Unable: The batch has another form.
        """
        if (tuple(batch.shape), batch.dtype) != (self.shape, self.dtype):
            raise Unable(
                f"made {batch.dtype} {list(batch.shape)}, not {self.dtype} {list(self.shape)}"
            )
        if batch.device != self.device:
            raise Unable(f"left the batch on {batch.device}, not on {self.device}")

    @property
    def clips(self) -> ClipPlan:
        """The plan of the clips; only for samples that are clips."""
        assert self.plan is not None
        return self.plan
