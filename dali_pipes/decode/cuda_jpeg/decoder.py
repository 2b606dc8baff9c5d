"""The decode stage on a GPU by our own kernels: sound baseline JPEGs there, all else on our threads, in the same batch."""

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
    put_canvases,
    settle_rows,
    start_rendering,
)
from dali_pipes.errors import LoaderError
from dali_pipes.jpeg.seek_point_stores import SeekPointStore
from dali_pipes.jpeg.status import REASONS
from dali_pipes.stages.augment import Augmenter, Engines
from dali_pipes.stages.canvas_memory import ViewCanvases, addresses_of
from dali_pipes.stages.data import NO_TARGETS, Decoded, Fetched, Pending
from dali_pipes.stages.fetch import Fetcher
from dali_pipes.stages.pipeline import Decoder

_PIXEL_BYTES = 13  # on the device, for each pixel that is decoded: coefficients, planes, RGB
_LAUNCH_BYTES = 1 << 31
"""What the kernels of one launch may take on the device; larger steps are decoded in several."""
_KEPT_BYTES = 1 << 28
"""What one launch may bring that stays on the device: it comes out of one pinned arena."""
_LAUNCH_ROWS = 1 << 15
"""Images of all views of one launch: CUDA counts blocks in 16 bits in one direction of a grid."""


@dataclass(frozen=True, slots=True)
class PreparedStep:
    """A step with its plan for the kernels, as `CudaJpegDecoder.prepare` returns it.

    Attributes:
        fetched: The step.
        launches: What the kernels get, one after the other.
        gpu_rows: The rows that they decode, ascending; in the order of the launches.
        canvases: Canvases of all rows of each view, on the device.
        remaining: The other rows, which our threads render.
    """

    fetched: Fetched
    launches: Sequence["_Launch"]
    gpu_rows: NDArray[np.int64]
    canvases: Sequence[ViewCanvases]
    remaining: RemainingRows


class CudaJpegDecoder(Decoder):
    """Decodes with our kernels; see Decoder.

    The kernels get only files of which the CPU has read all codes before, so their statuses must be good; these are checked
    later, without blocking, and at the end of a loop.
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
        """Find out what the kernels can decode, plan that, and start rendering the rest."""
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
        """Launch the kernels and the engine on a step."""
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
            rendered = engines.upload(remaining.canvases) if remaining.rows else []
            for of_all, of_rows in zip(prepared.canvases, rendered, strict=False):
                put_canvases(of_all, of_rows, remaining.rows)
            return prepared.canvases

        return self._augmenter.launch(decoded, canvases)

    def close(self) -> None:
        """Check all launches; raise as `_LaunchStatuses.require_good`."""
        self._cache = None
        self._side.close()
        # All of them before any error: no memory may be freed that statuses are still copied to.
        for statuses in self._statuses:
            statuses.wait()
        while self._statuses:
            self._statuses.popleft().require_good()

    def _decode(self, one: "_Launch", prepared: PreparedStep) -> None:
        """Launch the kernels, and have their statuses copied to the host."""
        planned, fresh = one.planned, None
        if self._cache is not None:
            fresh = self._cache.put(planned, one.files.files, one.digests)
        launched = launch(planned, self._kernels, fresh, one.ready)
        # Statuses overwrite the records, which are uploaded and read by then.
        statuses = planned.arena.numpy()[: 4 * len(one.rows)].view(np.int32)
        if len(one.rows):
            self._kernels.download(statuses, int(launched.job["statuses"][0]))
        done = None if self._side.stream is None else self._side.stream.record_event()
        self._statuses.append(
            _LaunchStatuses(done, statuses, prepared.fetched, one.rows, planned.arena)
        )

    def _check_finished(self) -> None:
        """Check the finished launches and return their arenas; raise as `_LaunchStatuses.require_good`."""
        while self._statuses and self._statuses[0].are_copied():
            finished = self._statuses.popleft()
            finished.require_good()
            self._arenas.give_back(finished.arena)

    def _planner(self) -> Planner:
        """Return the planner of this thread."""
        found: Planner | None = getattr(self._planners, "one", None)
        if found is None:
            found = self._planners.one = Planner(self._arenas)
        return found

    def _empty_canvases(self, engines: Engines, fetched: Fetched) -> list[ViewCanvases]:
        """Return memory for the canvases of all rows on the device, on the side stream."""

        def make(*shape: int) -> torch.Tensor:
            return torch.empty((*shape, 3), dtype=torch.uint8, device=engines.device)

        with torch.cuda.stream(self._side.stream):  # does nothing where that is None
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
        planned: The plan of its files.
        ready: The upload of that.
        files: The files.
        digests: uint64 [n], of all bytes of each.
        rows: int64 [images decoded here], those of the step.
    """

    planned: LaunchPlan
    ready: Upload
    files: Files
    digests: NDArray[np.uint64]
    rows: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _LaunchStatuses:
    """The kernels' statuses of the images of a launch.

    Attributes:
        done: The event after their copy to the host; None on a CPU.
        statuses: int32 [n] on the host.
        fetched: The step of the images.
        rows: int64 [n], their rows in it.
        arena: What the images were uploaded from; it is free once the statuses are copied.
    """

    done: Any
    statuses: NDArray[np.int32]
    fetched: Fetched
    rows: NDArray[np.int64]
    arena: torch.Tensor

    def are_copied(self) -> bool:
        return self.done is None or bool(self.done.query())

    def wait(self) -> None:
        """Wait until they are copied."""
        if self.done is not None:
            self.done.synchronize()

    def require_good(self) -> None:
        """Require that all are good, as the CPU found these files; to be called once the statuses are copied.

        Raises:
            LoaderError: One is not, so the pixels of its image were wrong.
        """
        if self.statuses.any():
            numbers = np.flatnonzero(self.statuses).tolist()
            reasons = {REASONS[status] for status in self.statuses[numbers].tolist()}
            bad = [self.fetched.key(row) for row in self.rows[numbers[:3]].tolist()]
            more = f" and {len(numbers) - 3} others" if len(numbers) > 3 else ""
            raise LoaderError(
                f"the GPU's JPEG decoder calls files damaged ({'; '.join(sorted(reasons))}) that are sound: "
                f'{", ".join(bad)}{more}; their pixels were wrong: use decoder="cpu", and please report this'
            )


def launches_of(parts: NDArray[np.void], files: Files, num_views: int) -> list[tuple[int, int]]:
    """Return the images of each launch: first and last (half open).

    Args:
        parts: RECT [n]: what is decoded of each.
        files: The n files; it is known which of them shall stay on the device.
        num_views: Views of an image.
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
