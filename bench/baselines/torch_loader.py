"""Run another library's pipeline from a file to a tensor, in worker processes of torch's DataLoader or in threads."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from bench.baselines.translations import torchvision_compose
from bench.compare.task import Pipeline, Task
from bench.compare.threads import NUM_AHEAD, threaded_batches
from gpu_aug import Recipe

_NUM_SAMPLES_MIN = 200_000  # more than any comparison needs, so that no epoch ends during it


def one_opencv_thread(worker: int) -> None:  # noqa: ARG001 - in every worker alike
    """Limit OpenCV to one thread, as recommended for worker processes."""
    import cv2

    cv2.setNumThreads(0)


class Baseline(ABC):
    """Base class of baselines: what a library's users write as a torch Dataset, which loads an image or clip.

    Attributes:
        note: A sentence about differences from our pipeline.
        transform: The library's augmentation of decoded images.
        worker_init: Called at the start of a DataLoader worker.
    """

    note: str
    transform: Callable[[Any], torch.Tensor]
    worker_init: Callable[[int], None] | None = None

    def __init__(self, recipe: Recipe) -> None:
        """Translate the recipe to torchvision transforms of tensors; subclasses for other libraries override this.

        Raises:
            Unable: The recipe has an operation without a translation.
        """
        self.transform = torchvision_compose(recipe)

    @abstractmethod
    def load(self, item: Any) -> torch.Tensor:
        """Return the image of a path, [3, height, width], or the frames of a `Clip`, [T, 3, height, width]."""

    def finish(self, batch: torch.Tensor) -> torch.Tensor:
        """Return the finished batch, for instance augmented, after it has arrived on the device."""
        return batch

    def adjust(self, task: Task) -> None:  # noqa: B027 - most have none that matters
        """Set the library's fastest setting for the task, if it has settings that matter; by default do nothing."""

    @classmethod
    def in_processes(cls, task: Task) -> Pipeline:
        """Start a DataLoader whose workers stay alive."""
        num_ahead = NUM_AHEAD * task.num_threads
        # The prefetched batches, and the batches that all workers then start at once.
        return cls._start(_from_processes, task, num_ahead, num_ahead + task.num_threads)

    @classmethod
    def in_threads(cls, task: Task) -> Pipeline:
        """Start threads; the consumer joins their tensors to batches."""
        return cls._start(_from_threads, task, NUM_AHEAD, NUM_AHEAD + 1)

    @classmethod
    def _start(
        cls,
        load: Callable[["Baseline", "_Items", Task], Iterator[torch.Tensor]],
        task: Task,
        num_ahead: int,
        num_discard: int,
    ) -> Pipeline:
        library = cls(task.recipe)
        library.adjust(task)
        batches = (
            library.finish(batch.to(task.device, non_blocking=True)).to(task.dtype)
            for batch in load(library, _Items(library, task), task)
        )
        return Pipeline(batches, library.note, num_ahead, num_discard)


def _from_processes(library: Baseline, items: "_Items", task: Task) -> Iterator[torch.Tensor]:
    loader = DataLoader(
        items,
        batch_size=task.batch_size,
        shuffle=task.plan is None,  # a plan is shuffled already
        num_workers=task.num_threads,
        pin_memory=task.device.type == "cuda",
        drop_last=True,
        worker_init_fn=library.worker_init,
        prefetch_factor=NUM_AHEAD,
        persistent_workers=True,
    )
    for batch, _ in loader:
        yield batch


def _from_threads(library: Baseline, items: "_Items", task: Task) -> Iterator[torch.Tensor]:
    if library.worker_init is not None:
        library.worker_init(0)  # OpenCV's thread count is a setting of the process
    # As in a DataLoader worker: torch uses one thread.
    begin = partial(torch.set_num_threads, 1)
    for rows in threaded_batches(items.__getitem__, task.batch_size, task.num_threads, begin):
        yield torch.stack([tensor for tensor, _ in rows])


class _Items(Dataset[tuple[torch.Tensor, int]]):
    """A torch Dataset of the task's images or clips, repeated."""

    def __init__(self, library: Baseline, task: Task) -> None:
        self._library, self._dtype = library, task.dtype
        self._files, self._labels, self._plan = task.files, task.labels, task.plan

    def __len__(self) -> int:
        return _NUM_SAMPLES_MIN

    def __getitem__(self, position: int) -> tuple[torch.Tensor, int]:
        if self._plan is not None:
            clip = self._plan[position]
            tensor, label = self._library.load(clip), clip.label
        else:
            file = position % len(self._files)
            tensor, label = self._library.load(self._files[file]), self._labels[file]
        if tensor.is_floating_point():
            # Converted per image in the worker: 491 images/s; in the worker's collate 469, in the trainer 452.
            tensor = tensor.to(self._dtype)
        return tensor, label
