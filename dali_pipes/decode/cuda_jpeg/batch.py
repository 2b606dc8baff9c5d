"""A batch of JPEGs on the GPU: the host plans it, one copy uploads it, and four kernels render it."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from dali_pipes.decode.cuda_jpeg.records import (
    GROUP_BYTES,
    IMAGE_BYTES,
    INTERVAL_BYTES,
    JOB,
    TABLES_BYTES,
    VIEW_BYTES,
)
from dali_pipes.decode.jpeg_batch import list_files
from dali_pipes.jpeg.huffman_tables import TABLE_BYTES
from dali_pipes.jpeg.memory import MEMORY_BYTES
from dali_pipes.jpeg.status import GOOD

_SECTIONS = ("data", "tables", "groups", "intervals")
"""Sections of the arena (the memory that is uploaded), whose offsets become addresses in the kernels' JOB."""
_IN_WORKSPACE = [
    (JOB.names or ()).index(name)
    for name in ("workspace", "coefficients", "depths", "statuses", "bits")
]
"""Columns of JOB that `launch` turns from offsets in the workspace into addresses."""
_BLOCK_BYTES = 128  # 64 coefficients of 2 bytes
# Thread blocks of a launch, spread over its images: four times the 16 x 132 that an H100 runs at once (16 on each multiprocessor).
_GRID_MOST = 8192
# The smallest arena. The sizes of small batches vary most; with 1 MiB to spare they seldom need a second attempt.
_ARENA_BYTES = 1 << 20
_MOST_SPARE = 4  # larger arenas than this multiple of the needed size are freed, so one large batch does not hold memory forever
_SPACE_BYTES = 32  # padding of a cached scan: it begins and ends at multiples of 16 bytes


class Kernels(Protocol):
    """Base class of what runs the kernels and copies memory for them.

    `GpuKernels` run on a GPU, `CpuKernels` on the CPU, and `NoKernels` do nothing so that the host can be measured alone.
    All methods except `upload` enqueue work on torch's current stream, in call order.
    """

    device: torch.device

    def upload(
        self, arena: torch.Tensor, num_bytes: int, reader: Any = None
    ) -> tuple[torch.Tensor, Callable[[], None]]:
        """Start copying the first bytes of an arena to the device while kernels run; any thread may call it.

        Args:
            arena: uint8 [...] on the host.
            num_bytes: Count of bytes to copy.
            reader: The stream whose kernels will read the bytes; None means the current stream.

        Returns:
            The copy on the device, and a function that makes the current stream wait for the copy.
        """
        ...

    def zero(self, address: int, num_bytes: int) -> None:
        """Enqueue zeroing `num_bytes` bytes of device memory."""

    def launch(self, name: str, grid: tuple[int, int], job: "NDArray[np.void]") -> None:
        """Enqueue a kernel with `grid` thread blocks in x and y, and the JOB [1] as its argument."""

    def download(self, target: NDArray[np.int32], address: int) -> None:
        """Enqueue a copy from the device to pinned host memory; the target is valid once the stream has passed it."""


class Arenas:
    """A pool of host memory for uploads, reused from batch to batch; any thread may use it.

    Allocating pinned memory costs milliseconds in the driver. torch's own pinned cache queries events before each allocation.

    Args:
        pinned: Whether to pin the memory, which a GPU needs to copy it asynchronously.
    """

    def __init__(self, *, pinned: bool) -> None:
        self._pinned, self._free = pinned, list[torch.Tensor]()

    def take(self, num_bytes: int) -> torch.Tensor:
        """Return an arena of at least `num_bytes` bytes, aligned to 16 bytes."""
        while self._free:
            with suppress(IndexError):  # another thread was faster
                arena = self._free.pop()
                if num_bytes <= arena.numel() <= _MOST_SPARE * num_bytes:
                    return arena
        # torch rounds pinned memory up to a power of two anyway; so later, slightly larger batches fit, too.
        size = 1 << (num_bytes - 1).bit_length()
        return torch.empty(size, dtype=torch.uint8, pin_memory=self._pinned)

    def give_back(self, arena: torch.Tensor) -> None:
        """Return an arena to the pool once no device reads it any more."""
        self._free.append(arena)


@dataclass(frozen=True, slots=True)
class Files:
    """Encoded images with their seek points and restart intervals.

    Attributes:
        files: FILE [n], see `plan.FILE`.
        offsets: int64 [...], for all files one after the other, the offsets in the file at which restart intervals
            begin.
        held: An object that keeps the bytes and seek points in memory.
    """

    files: "NDArray[np.void]"
    offsets: NDArray[np.int64]
    held: Any

    def some(self, first: int, last: int) -> "Files":
        """Return files `first` to `last` (half open)."""
        return Files(self.files[first:last], self.offsets, self.held)


@dataclass(frozen=True, slots=True)
class CropRequest:
    """The requested crops of n images in V views.

    Attributes:
        sizes: int64 [n, 2]: height and width of the upright images.
        parts: RECT [n], the part of each image that all its views together need.
        crops: CROP [V, n], the crop of each view.
        canvases: int64 [V, n, 3], address on the device, height and width of each canvas.
        antialias: bool [V], whether each view is low-pass filtered when it shrinks.
    """

    sizes: NDArray[np.int64]
    parts: "NDArray[np.void]"
    crops: "NDArray[np.void]"
    canvases: NDArray[np.int64]
    antialias: NDArray[np.bool_]

    def some(self, first: int, last: int) -> "CropRequest":
        """Return the crops of images `first` to `last` (half open)."""
        if first == 0 and last == len(self.parts):
            return self
        rows = slice(first, last)
        return CropRequest(
            self.sizes[rows],
            self.parts[rows],
            np.ascontiguousarray(self.crops[:, rows]),  # one type for compiled code
            np.ascontiguousarray(self.canvases[:, rows]),
            self.antialias,
        )


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """The host's plan of one launch: the bytes to upload and the records that the kernels read.

    Attributes:
        arena: uint8 [...] on the host, pinned for a GPU.
        totals: TOTALS [1], the counts of records and the sizes of memory.
        numbers: int32 [n], index of each image in the launch; -1 for images that the kernels do not decode.
        statuses: int32 [n], GOOD, or the reason why the kernels do not decode the image.
        num_views: Count of views per image.
        fresh: int64 [n, 2], for images whose scan is cached on the device by this launch: the distance of the scan's
            start from the arena's end, and the offset of its first byte in the file; 0 for other images.
    """

    arena: torch.Tensor
    totals: "NDArray[np.void]"
    numbers: NDArray[np.int32]
    statuses: NDArray[np.int32]
    num_views: int
    fresh: NDArray[np.int64]

    def fresh_bytes(self) -> torch.Tensor:
        """Return the bytes to cache on the device: uint8 [...] on the host."""
        return self.arena[self.arena.numel() - int(self.totals["fresh"][0]) :]


@dataclass(frozen=True, slots=True)
class Upload:
    """A batch whose upload has started, with everything that is known before its launch.

    Attributes:
        arena: uint8 [...] on the device.
        wait: Makes the current stream wait for the arena.
        job: JOB [1]; addresses in the workspace are still offsets from its start.
        grids: Name and thread blocks of each kernel, in launch order.
        zeroed: Bytes at the start of the workspace that the kernels expect to be zero.
        num_bytes: Size of the workspace in bytes.
    """

    arena: torch.Tensor
    wait: Callable[[], None]
    job: "NDArray[np.void]"
    grids: Sequence[tuple[str, tuple[int, int]]]
    zeroed: int
    num_bytes: int


@dataclass(frozen=True, slots=True)
class Launched:
    """A batch whose kernels are enqueued.

    Attributes:
        planned: The plan of the batch.
        job: JOB [1], the argument of the kernels.
        workspace: uint8 [...] on the device.
        memory: Further device memory that the kernels read; like the workspace, it must live until they have finished.
    """

    planned: LaunchPlan
    job: "NDArray[np.void]"
    workspace: torch.Tensor
    memory: tuple[torch.Tensor | None, ...]

    @property
    def statuses(self) -> torch.Tensor:
        """Status of each image, int32 [images] on the device; if it is not GOOD, the image's canvases are undefined."""
        at = int(self.job["statuses"][0]) - self.workspace.data_ptr()
        return self.workspace[at : at + 4 * int(self.job["num_images"][0])].view(torch.int32)


def files_of(
    spans: NDArray[np.int64],
    restarts: Sequence[NDArray[np.int64] | None] | None,
    known: "NDArray[np.void]",
    held: Any,
) -> Files:
    """Return encoded images with their seek points and restart intervals, as `Planner.plan` takes them.

    Args:
        spans: int64 [n, 2], address and length in bytes of each file.
        restarts: See `Fetched.restarts`.
        known: KNOWN [n], the statuses and seek points of the files.
        held: An object that keeps the bytes and seek points in memory.
    """
    from dali_pipes.decode.cuda_jpeg.plan import FILE

    return Files(*list_files(FILE, spans, restarts, known), held)


class Planner:
    """Plans launches on the host; one thread at a time may use it.

    Args:
        arenas: The pool of memory for uploads.
    """

    def __init__(self, arenas: Arenas) -> None:
        self._arenas = arenas
        self._arena_bytes: int | None = None
        self._intervals = 1 << 12
        self._scratch = np.zeros(MEMORY_BYTES, np.uint8)
        self._stored = np.empty((4, 4, TABLE_BYTES), np.uint8)
        self._starts = np.empty(1 << 12, np.int64)
        self._records = self._new_records()

    def plan(self, files: Files, wanted: CropRequest) -> LaunchPlan:
        """Return the plan of a launch, with the intervals' bytes and all records in an arena."""
        from dali_pipes.decode.cuda_jpeg.plan import TOTALS, plan_batch

        count, num_views = len(files.files), len(wanted.crops)
        numbers, statuses = np.empty(count, np.int32), np.empty(count, np.int32)
        fresh = np.empty((count, 2), np.int64)
        totals = np.zeros(1, TOTALS)
        fixed = count * (IMAGE_BYTES + num_views * VIEW_BYTES) + 4096
        # An upper bound of the bytes for the scans that this launch adds to the cache on the device.
        staying = int((files.files["keep"] * (files.files["num_bytes"] + _SPACE_BYTES)).sum())
        if self._arena_bytes is None:
            self._arena_bytes = _ARENA_BYTES + fixed + _bytes_to_copy(files.files)
        while True:
            changing = max(self._arena_bytes, 2 * fixed)
            arena = self._arenas.take((changing + staying + 255) // 256 * 256)
            memories = (arena.numpy(), self._records, self._scratch, self._stored, self._starts)
            status = plan_batch(
                files.files, files.offsets, wanted.sizes, wanted.parts, wanted.crops,
                wanted.canvases, wanted.antialias, memories, numbers, statuses, fresh, totals,
            )  # fmt: skip
            if status == GOOD:
                used = int(totals["used"][0])
                self._arena_bytes = max(used + used // 4, self._arena_bytes // 2, _ARENA_BYTES)
                return LaunchPlan(arena, totals, numbers, statuses, num_views, fresh)
            self._grow(status, changing)

    def _grow(self, lacking: int, changing: int) -> None:
        """Double the memory that `plan_batch` reported as too small."""
        from dali_pipes.decode.cuda_jpeg.plan import NO_INTERVALS, NO_STARTS, NO_TABLES

        if lacking == NO_STARTS:
            self._starts = np.empty(2 * len(self._starts), np.int64)
        elif lacking == NO_TABLES:
            self._stored = np.empty((2 * len(self._stored), 4, TABLE_BYTES), np.uint8)
            self._records = self._new_records()
        elif lacking == NO_INTERVALS:
            self._intervals *= 2
            self._records = self._new_records()
        else:
            self._arena_bytes = 2 * changing

    def _new_records(self) -> NDArray[np.uint8]:
        half = max(len(self._stored) * TABLES_BYTES, self._intervals * (INTERVAL_BYTES + GROUP_BYTES))  # fmt: skip
        return np.empty(2 * half // 32 * 32 + 32, np.uint8)


def _bytes_to_copy(files: "NDArray[np.void]") -> int:
    """Return the arena bytes for the codes and intervals of FILE [n] if every image is decoded in full."""
    copied = (files["kept"] == 0) & (files["keep"] == 0)
    intervals = files["num_seek_points"] + files["last_offset"] - files["first_offset"] + 1
    return int((copied * files["num_bytes"] + intervals * (INTERVAL_BYTES + GROUP_BYTES)).sum())


def upload(planned: LaunchPlan, kernels: Kernels, reader: Any = None) -> Upload:
    """Start copying a batch to the device, and return what its launch needs; see `Kernels.upload`."""
    total = dict(zip(planned.totals.dtype.names or (), planned.totals[0].item(), strict=True))
    num_images = total["num_images"]
    num_views = num_images * planned.num_views
    zeroed, found = _lay_out_workspace(total["blocks"], num_images, num_views)
    arena, wait = kernels.upload(planned.arena, total["used"], reader)
    base = arena.data_ptr()
    for name in _SECTIONS:
        found[name] = base + total[f"{name}_at"]
    found |= {"workspace": zeroed, "images": base, "num_groups": total["num_groups"]}
    found |= {"views": base + len(planned.numbers) * IMAGE_BYTES, "fresh": 0, "unused": 0}
    found |= {"num_images": num_images, "num_views": num_views}
    job = np.array([tuple(map(found.__getitem__, JOB.names or ()))], JOB)
    grids = _choose_grids(total, num_images, num_views) if num_images else []
    return Upload(arena, wait, job, grids, zeroed, zeroed + total["memory"])


def launch(
    planned: LaunchPlan,
    kernels: Kernels,
    fresh: torch.Tensor | None = None,
    ready: Upload | None = None,
) -> Launched:
    """Enqueue the kernels for a batch on torch's current stream, without waiting.

    Args:
        planned: The plan of the batch.
        kernels: The kernels of the device that has the canvases.
        fresh: The copy of `LaunchPlan.fresh_bytes` on the device; None if no scan is added to the cache.
        ready: The result of `upload`; None uploads the batch now.
    """
    ready = ready or upload(planned, kernels)
    workspace = torch.empty(ready.num_bytes, dtype=torch.uint8, device=kernels.device)
    start = workspace.data_ptr()
    if ready.grids:
        kernels.zero(start, ready.zeroed)
    job = ready.job.copy()
    job.view(np.uint64)[_IN_WORKSPACE] += np.uint64(start)
    if fresh is not None:
        job["fresh"] = fresh.data_ptr() + fresh.numel()
    ready.wait()
    for name, grid in ready.grids:
        kernels.launch(name, grid, job)
    return Launched(planned, job, workspace, (ready.arena, fresh))


def _lay_out_workspace(blocks: int, num_images: int, num_views: int) -> tuple[int, dict[str, int]]:
    """Return the size of the workspace's zeroed part in bytes, and the offset of each of its sections."""
    sizes = {
        "coefficients": blocks * _BLOCK_BYTES,
        "depths": blocks,
        "statuses": 4 * num_images,
        "bits": 8 * num_views,
    }
    places, used = {}, 0
    for name, size in sizes.items():
        places[name] = used
        used += (size + 255) // 256 * 256
    return used, places


def _choose_grids(
    total: Mapping[str, int], num_images: int, num_views: int
) -> list[tuple[str, tuple[int, int]]]:
    """Return for each kernel its name and its count of thread blocks in x and y, in launch order."""
    from dali_pipes.decode.cuda_jpeg.on_gpu import THREADS

    def wide(items: int, count: int) -> int:
        most = max(_GRID_MOST // count, 16)
        return max(1, min(-(-items // THREADS), most))

    blocks = total["blocks"] // num_images
    return [
        ("read_codes", (total["num_groups"] + 2 * num_views, 1)),
        ("invert", (wide(blocks, num_images), num_images)),
        ("color", (wide(total["pixels"], num_images), num_images)),
        ("resize", (wide(total["seen"], num_views), num_views)),
    ]
