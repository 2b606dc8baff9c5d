"""Run our own loader as a contestant: with every decoder and engine, and in a first epoch."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bench.compare.task import Pipeline, Task, Unable
from bench.compare.windows import WindowBatch, WindowTask
from dali_pipes import (
    BadSampleError,
    Loader,
    LoaderError,
    MissingPackageError,
    available_decoders,
)
from dali_pipes.jpeg.seek_point_stores import SeekPointMemory
from dali_pipes.jpeg.seek_points import FINDER, Known, from_stored, list_known
from dali_pipes.machine.compile_ahead import load_progressive
from dali_pipes.preview.chosen_batches import Decoder, Engine
from gpu_aug import CameraRecipes, EngineError, Recipe, Resize
from readers import open_dataset

_NUM_AHEAD = 4  # the loader's prefetch of 2, plus the batches in its stages
_NUM_DISCARD = 6


class NewFiles(SeekPointMemory):
    """A store that never returns seek points, so that every JPEG is read as a new file each time."""

    def look_up(self, indices: NDArray[np.int64], digests: NDArray[np.uint64]) -> Known:
        """Return a record for each file, which marks the file as unknown."""
        # A real look-up, so that it takes as long as for known files.
        super().look_up(indices, digests)
        return list_known([None] * len(indices))


def start(
    task: Task, *, decoder: Decoder, engine: Engine, is_first_epoch: bool = False
) -> Pipeline:
    """Start `dali_pipes.Loader`.

    Args:
        task: The task, which is equal for all contestants.
        decoder: The decoder, as for Loader.
        engine: The engine, as for Loader.
        is_first_epoch: Whether seek points are missing for all JPEGs, as in a first epoch; otherwise all are known.

    Raises:
        Unable: The decoder or the engine is not installed, or cannot run the recipe.
    """
    if reason := available_decoders()[decoder]:
        raise Unable(reason)
    try:
        loader = Loader(
            task.dataset,
            task.recipe,
            batch_size=task.batch_size,
            device=task.device,
            decoder=decoder,
            engine=engine,
            seed=task.seed,
            dtype=task.dtype,
            num_threads=task.num_threads,
        )
    except (EngineError, LoaderError, MissingPackageError) as error:
        raise Unable(str(error)) from error
    note = "antialiased, channels_last; the same draws for every engine"
    if decoder == "cpu" and task.plan is None:
        load_progressive()
        loader._loops.production.seek_points = NewFiles() if is_first_epoch else _known(task)
        note += "; no JPEG was met before" if is_first_epoch else "; all JPEGs were met before"
    return Pipeline(_batches(loader, task), note, _NUM_AHEAD, _NUM_DISCARD)


def start_windows(task: WindowTask, *, dtype: str) -> Pipeline:
    """Start `dali_pipes.Loader` on the windows of a LeRobot dataset; pictures keep their size.

    Args:
        task: The task, which is equal for all contestants.
        dtype: "uint8", or a dtype of floats, which lie in [0, 1].
    """
    dataset: Any = open_dataset(task.root, **task.options)
    groups: dict[tuple[int, int], list[str]] = {}
    for camera, size in task.sizes.items():
        groups.setdefault(size, []).append(camera)
    loader = Loader(
        dataset.take(task.plan),
        CameraRecipes({tuple(group): Recipe([Resize(size)]) for size, group in groups.items()}),
        batch_size=task.batch_size,
        device=task.device,
        dtype=getattr(torch, dtype),
        shuffle="none",
        fields=list(task.values),
        num_threads=task.num_threads,
    )

    def batches() -> Iterator[WindowBatch]:
        with loader:
            for batch in loader:
                yield WindowBatch(batch.cameras, {name: batch[name] for name in task.values})

    return Pipeline(batches(), "", _NUM_AHEAD, _NUM_DISCARD)


def _known(task: Task) -> SeekPointMemory:
    """Return a store with the seek points of all files, as after a first epoch."""
    known = SeekPointMemory()
    for sample in task.dataset.fetch(range(len(task.files))):
        data = getattr(sample, "image", b"")
        known.store_all([(0, FINDER.digest(data), from_stored(FINDER.find(data)))])
    return known


def _batches(loader: Loader, task: Task) -> Iterator[torch.Tensor]:
    with loader:
        try:
            for batch in loader:
                yield batch.images
        except BadSampleError as error:
            bad = loader.bad_samples[-1]
            key = bad.key.rpartition("#")[0] if task.plan else bad.key
            raise Unable(f"{key} is bad ({bad.reason}): take it out of the data") from error
