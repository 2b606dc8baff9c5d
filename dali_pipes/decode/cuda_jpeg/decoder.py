"""The decode stage on a GPU with our own kernels: sound baseline JPEGs on the GPU, all other images on CPU threads."""

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dali_pipes.decode.cuda_jpeg.batch import (
    Arenas,
    CropRequest,
    Files,
    Kernels,
    LaunchPlan,
    Planner,
    Upload,
    files_of,
    launch,
    upload,
)
from dali_pipes.decode.cuda_jpeg.device_cache import DeviceCache
from dali_pipes.decode.cuda_jpeg.known import known_of
from dali_pipes.decode.jpeg_batch import crops_of, parts_of
from dali_pipes.decode.remaining_rows import (
    RemainingRows,
    settle_rows,
    start_rendering,
)
from dali_pipes.errors import LoaderError, first_of
from dali_pipes.jpeg.seek_point_stores import SeekPointStore
from dali_pipes.jpeg.status import REASONS
from dali_pipes.stages.augment import Augmenter, Engines
from dali_pipes.stages.canvas_memory import ViewCanvases, addresses_of
from dali_pipes.stages.data import NO_TARGETS, Decoded, Fetched, Pending
from dali_pipes.stages.fetch import Fetcher
from dali_pipes.stages.pipeline import Decoder

_PIXEL_BYTES = 13  # device memory per decoded pixel: coefficients, planes, RGB
_LAUNCH_BYTES = 1 << 31
"""Device memory that the kernels of one launch may use; larger steps are split into several launches."""
_KEPT_BYTES = 1 << 28
"""Bytes that one launch may add to the cache on the device; they share one pinned arena with the upload."""
_LAUNCH_ROWS = 1 << 15
"""Largest product of images and views of one launch; CUDA limits the y dimension of a grid to 16 bits."""


@dataclass(frozen=True, slots=True)
class PreparedStep:
    """A step with its launch plans, as `CudaJpegDecoder.prepare` returns it.

    Attributes:
        fetched: The step.
        launches: The launches, in order.
        gpu_rows: int64 [...], the rows that the launches decode, ascending and in launch order.
        canvases: The canvases of all rows on the device, one item per view.
        remaining: The rows that the launches do not decode, which CPU threads render.
    """

    fetched: Fetched
    launches: Sequence["_Launch"]
    gpu_rows: NDArray[np.int64]
    canvases: Sequence[ViewCanvases]
    remaining: RemainingRows


class CudaJpegDecoder(Decoder):
    """Decodes with our CUDA kernels; see Decoder.

    The kernels only get files whose codes the CPU has read completely before, so every status must be GOOD. The
    statuses are checked later without blocking, and at the end of a loop.
    """

    def __init__(
        self,
        fetcher: Fetcher,
        augmenter: Augmenter,
        kernels: Kernels,
        store: SeekPointStore,
        prefetch: int,
        cache: DeviceCache | None = None,
    ) -> None:
        self._fetcher, self._augmenter = fetcher, augmenter
        self._kernels, self._store, self._cache = kernels, store, cache
        self._pool, self._recorder = augmenter.workers.pool, augmenter.workers.recorder
        self._side = augmenter.side
        self._planners = threading.local()
        self._arenas = Arenas(pinned=self._side.stream is not None)
        self._statuses: deque[_LaunchStatuses] = deque()
        self.capacity = prefetch + self.lookahead

    def prepare(self, fetched: Fetched) -> PreparedStep:
        """Plan and upload what the kernels can decode, and start rendering the other rows on CPU threads."""
        with self._recorder.measure("header", work=fetched.work):
            sound = known_of(fetched, self._store, self._pool)
        engines = self._augmenter.engines_of(fetched)
        canvases = self._empty_canvases(engines, fetched)
        wanted = _crop_request(fetched, sound.rows, canvases)
        if (restarts := fetched.restarts) is not None:
            restarts = [restarts[row] for row in sound.rows.tolist()]
        launches, gpu_rows = [], []
        files = files_of(sound.spans, restarts, sound.known.files, (fetched, sound.known.held))
        if self._cache is not None:
            self._cache.look_up(files.files, sound.digests)
        for first, last in launches_of(wanted.parts, files, len(canvases)):
            some, of_launch = slice(first, last), files.some(first, last)
            planned = self._planner().plan(of_launch, wanted.some(first, last))
            gpu_rows.append(sound.rows[some][planned.numbers >= 0])
            ready = upload(planned, self._kernels, self._side.stream)
            launches.append(_Launch(planned, ready, of_launch, sound.digests[some], gpu_rows[-1]))
        decoded_rows = np.concatenate([np.empty(0, np.int64), *gpu_rows])
        others = np.delete(np.arange(len(fetched)), decoded_rows).tolist()
        remaining = start_rendering(self._fetcher, self._augmenter, fetched, others)
        return PreparedStep(fetched, launches, decoded_rows, canvases, remaining)

    def finish(self, prepared: PreparedStep) -> Pending:
        """Launch the kernels and then the augmentation of a step."""
        with self._recorder.measure("decode", by_others=True):
            decoded = Decoded(prepared.fetched, [NO_TARGETS] * len(prepared.fetched))
            decoded = prepared.remaining.wait(decoded)
        is_on_gpu = np.zeros(len(prepared.fetched), bool)
        is_on_gpu[prepared.gpu_rows] = True
        decoded, remaining = settle_rows(
            self._fetcher, self._augmenter, prepared.remaining, decoded, is_on_gpu
        )
        engines = self._augmenter.engines_of(decoded.fetched)

        def canvases() -> Sequence[ViewCanvases]:
            self._check_finished()
            for one in prepared.launches:
                self._decode(one, prepared)
            remaining.put_into(prepared.canvases, engines)
            return prepared.canvases

        return self._augmenter.launch(decoded, canvases)

    def close(self) -> None:
        """Wait for all launches, and raise if the GPU found a file damaged; see `_LaunchStatuses.require_good`."""
        self._cache = None
        self._side.close()
        # Wait for all before raising: an error frees the arenas, to which the device still copies statuses.
        for statuses in self._statuses:
            statuses.wait()
        while self._statuses:
            self._statuses.popleft().require_good()

    def _decode(self, one: "_Launch", prepared: PreparedStep) -> None:
        """Launch the kernels and enqueue the copy of their statuses to the host."""
        planned, fresh = one.planned, None
        if self._cache is not None:
            fresh = self._cache.put(planned, one.files.files, one.digests)
        launched = launch(planned, self._kernels, fresh, one.ready)
        # The statuses overwrite the records in the arena: these are uploaded and read by then.
        statuses = planned.arena.numpy()[: 4 * len(one.rows)].view(np.int32)
        if len(one.rows):
            self._kernels.download(statuses, int(launched.job["statuses"][0]))
        done = None if self._side.stream is None else self._side.stream.record_event()
        self._statuses.append(
            _LaunchStatuses(done, statuses, prepared.fetched, one.rows, planned.arena)
        )

    def _check_finished(self) -> None:
        """Give back the arenas of finished launches, and raise if the GPU found a file damaged.

        See `_LaunchStatuses.require_good`.
        """
        while self._statuses and self._statuses[0].are_copied():
            finished = self._statuses.popleft()
            finished.require_good()
            self._arenas.give_back(finished.arena)

    def _planner(self) -> Planner:
        """Return the planner of the calling thread."""
        found: Planner | None = getattr(self._planners, "one", None)
        if found is None:
            found = self._planners.one = Planner(self._arenas)
        return found

    def _empty_canvases(self, engines: Engines, fetched: Fetched) -> list[ViewCanvases]:
        """Allocate the canvases of all rows on the device, on the side stream."""

        def make(*shape: int) -> torch.Tensor:
            return torch.empty((*shape, 3), dtype=torch.uint8, device=engines.device)

        with torch.cuda.stream(self._side.stream):  # no effect if the stream is None
            made: list[ViewCanvases] = []
            for view, drawn in zip(engines.views, fetched.draws, strict=True):
                size = view.recipe.decode_size
                if size is None:
                    made.append([make(*shape) for shape in drawn.crops.canvas.tolist()])
                else:
                    made.append(make(len(fetched), *size))
        return made


@dataclass(frozen=True, slots=True)
class _Launch:
    """One launch of the kernels.

    Attributes:
        planned: The plan of the launch.
        ready: The upload of the plan, which has started.
        files: All files of the launch, including those that the kernels do not decode.
        digests: uint64 [n], the digest of each file's bytes.
        rows: int64 [images of the launch], the row of each image in the step.
    """

    planned: LaunchPlan
    ready: Upload
    files: Files
    digests: NDArray[np.uint64]
    rows: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _LaunchStatuses:
    """The kernels' statuses of the images of a launch, on their way to the host.

    Attributes:
        done: The CUDA event after the copy to the host; None on a CPU.
        statuses: int32 [n] on the host.
        fetched: The step of the images.
        rows: int64 [n], rows of the images in the step.
        arena: The arena of the upload; it can be reused once the statuses are copied.
    """

    done: Any
    statuses: NDArray[np.int32]
    fetched: Fetched
    rows: NDArray[np.int64]
    arena: torch.Tensor

    def are_copied(self) -> bool:
        return self.done is None or bool(self.done.query())

    def wait(self) -> None:
        """Wait until the statuses are copied."""
        if self.done is not None:
            self.done.synchronize()

    def require_good(self) -> None:
        """Check that every status is GOOD; call it once the statuses are copied.

        Raises:
            LoaderError: The GPU calls a file damaged that the CPU found sound, so its pixels were wrong.
        """
        if self.statuses.any():
            numbers = np.flatnonzero(self.statuses).tolist()
            reasons = {REASONS[status] for status in self.statuses[numbers].tolist()}
            bad = first_of([self.fetched.key(row) for row in self.rows[numbers].tolist()])
            raise LoaderError(
                f"the GPU's JPEG decoder calls files damaged ({'; '.join(sorted(reasons))}) that are sound: "
                f'{bad}; their pixels were wrong: use decoder="cpu", and please report this'
            )


def launches_of(parts: NDArray[np.void], files: Files, num_views: int) -> list[tuple[int, int]]:
    """Split images into launches that fit into memory; return the range of images of each, (first, last), half open.

    Args:
        parts: RECT [n], the part of each image that is decoded.
        files: The n files, with `keep` already set.
        num_views: Count of views per image.
    """
    if not len(parts):
        return []
    shares = (
        parts["height"] * parts["width"] * (_PIXEL_BYTES / _LAUNCH_BYTES)
        + files.files["keep"] * files.files["num_bytes"] / _KEPT_BYTES
        + num_views / _LAUNCH_ROWS
    )
    taken = np.cumsum(shares).astype(np.int64)
    bounds = np.flatnonzero(np.diff(taken, prepend=-1)).tolist()
    return list(zip(bounds, [*bounds[1:], len(parts)], strict=True))


def _crop_request(
    fetched: Fetched, rows: NDArray[np.int64], canvases: Sequence[ViewCanvases]
) -> CropRequest:
    crops = np.stack([crops_of(drawn.crops)[rows] for drawn in fetched.draws])
    places = np.stack([addresses_of(view, rows) for view in canvases])
    antialias = np.array([drawn.crops.antialias for drawn in fetched.draws])
    return CropRequest(fetched.sizes[rows], parts_of(fetched)[rows], crops, places, antialias)
