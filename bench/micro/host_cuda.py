"""What the host does for our JPEG decoder on a GPU, on a machine without one: memory is there already, and no kernel is launched."""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dali_pipes.decode.cuda_jpeg.batch import Planner, launch
from dali_pipes.decode.cuda_jpeg.decoder import CudaJpegDecoder, Prepared
from dali_pipes.jpeg.checkpoints import Checkpoints, Known
from dali_pipes.jpeg.stored_checkpoints import StoredCheckpoints
from dali_pipes.pipeline.augment import Engines
from dali_pipes.pipeline.canvases import ViewCanvases
from dali_pipes.pipeline.stages import Fetched, Pending
from dali_pipes.stats.recorder import Recorder
from readers import Dataset


class HostCudaDecoder(CudaJpegDecoder):
    """Tells how long it takes.

    Args:
        loop: The `Meter` of the thread that takes the steps.
        worker: The one of the thread that prepares them.
        arguments: See CudaJpegDecoder; the kernels are left out.
    """

    def __init__(self, loop: Any, worker: Any, fetcher: Any, augmenter: Any, *rest: Any) -> None:
        super().__init__(fetcher, augmenter, _NoKernels(), *rest)
        self._loop, self._worker, self._canvases = loop, worker, list[ViewCanvases]()
        self._recorder = Recorder()  # whose "header" would count twice

    def prepare(self, fetched: Fetched) -> Prepared:
        """See Decoder."""
        with self._worker.part("prepare"):
            return super().prepare(fetched)

    def push(self, prepared: Future[Prepared]) -> None:
        """See Decoder; the step is waited for here, where nobody counts."""
        prepared.result()
        super().push(prepared)

    def take(self) -> Pending:
        """See Decoder."""
        with self._loop.part("take"):
            return super().take()

    def _decode(self, one: Any, prepared: Prepared) -> None:
        del prepared
        with self._loop.part("launch"):
            launch(one.planned, self._kernels)

    def _new_planner(self) -> Planner:
        return _HostPlanner(pinned=False)

    def _empty_canvases(self, engines: Engines, fetched: Fetched) -> list[ViewCanvases]:
        if not self._canvases or len(self._canvases[0]) != len(fetched):
            self._canvases = super()._empty_canvases(engines, fetched)
        return self._canvases


class StoreOfRepeated:
    """A `CheckpointStore` for the samples of a dataset, over and over.

    Args:
        dataset: The dataset.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._whole, self._length = StoredCheckpoints(dataset), len(dataset)

    def look_up(self, indices: NDArray[np.int64], digests: NDArray[np.uint64]) -> Known:
        """See CheckpointStore."""
        return self._whole.look_up(indices % self._length, digests)

    def find_all(
        self, indices: NDArray[np.int64], digests: NDArray[np.uint64]
    ) -> Sequence[Checkpoints | None]:
        """See CheckpointStore."""
        return self._whole.find_all(indices % self._length, digests)

    def keep_all(self, found: Sequence[tuple[int, int, Checkpoints]]) -> None:
        """See CheckpointStore."""
        self._whole.keep_all([(index % self._length, digest, one) for index, digest, one in found])


class _NoKernels:
    """Kernels of a device whose memory is nowhere."""

    device = torch.device("meta")

    def launch(self, name: str, grid: tuple[int, int], job: "NDArray[Any]") -> None:
        """Ask for nothing."""


class _HostPlanner(Planner):
    """Has its arenas already, as torch keeps pinned memory."""

    _kept: Sequence[torch.Tensor] = ()

    def _new_arena(self, num_bytes: int) -> torch.Tensor:
        fitting = [one for one in self._kept if one.numel() >= num_bytes]
        if len(fitting) < _ARENAS:
            fitting += [torch.zeros(num_bytes, dtype=torch.uint8) for _ in range(_ARENAS)]
        first, *others = fitting[:_ARENAS]
        self._kept = (*others, first)
        return first


_ARENAS = 4  # steps that are under way
