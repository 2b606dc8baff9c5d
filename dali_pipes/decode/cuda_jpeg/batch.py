"""A batch of JPEGs: planned on the host, uploaded in one piece, and rendered by four kernels."""

from collections.abc import Sequence
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
from dali_pipes.jpeg.header import TABLE_BYTES
from dali_pipes.jpeg.memory import MEMORY_BYTES
from dali_pipes.jpeg.status import GOOD

_NO_OFFSETS = np.empty(0, np.int64)
_BLOCK_BYTES = 128
_GRID_MOST = 8192  # blocks of threads of a launch, spread over its images
_ARENA_BYTES = 1 << 20
_SPACE_BYTES = 32  # scans that stay begin and end at multiples of 16 bytes


class Kernels(Protocol):
    """What carries out kernels: a GPU, or functions on the CPU."""

    device: torch.device

    def launch(self, name: str, grid: tuple[int, int], job: "NDArray[np.void]") -> None:
        """Ask for a kernel."""


@dataclass(frozen=True, slots=True)
class Files:
    """Encoded images, and what is known of the insides of their scans.

    Attributes:
        files: FILE [n].
        offsets: int64 [...]: where restart intervals begin.
        held: Keeps bytes and checkpoints in memory.
    """

    files: "NDArray[np.void]"
    offsets: NDArray[np.int64]
    held: Any

    def some(self, first: int, last: int) -> "Files":
        """Those from first to last (half open)."""
        return Files(self.files[first:last], self.offsets, self.held)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is wanted of n images in V views.

    Attributes:
        sizes: int64 [n, 2]: height and width of the upright images.
        parts: RECT [n]: the part of each that all views need.
        crops: CROP [V, n].
        canvases: int64 [V, n, 3]: address on the device, height and width.
        antialias: bool [V].
    """

    sizes: NDArray[np.int64]
    parts: "NDArray[np.void]"
    crops: "NDArray[np.void]"
    canvases: NDArray[np.int64]
    antialias: NDArray[np.bool_]

    def some(self, first: int, last: int) -> "Wanted":
        """The same of the images first to last (half open)."""
        if first == 0 and last == len(self.parts):
            return self
        rows = slice(first, last)
        return Wanted(
            self.sizes[rows],
            self.parts[rows],
            np.ascontiguousarray(self.crops[:, rows]),  # one type for compiled code
            np.ascontiguousarray(self.canvases[:, rows]),
            self.antialias,
        )


@dataclass(frozen=True, slots=True)
class Planned:
    """A batch as the host leaves it.

    Attributes:
        arena: uint8 [...] on the host, pinned for a GPU.
        totals: TOTALS [1].
        numbers: int32 [n]: number of each image among those that are decoded here; -1 for the others.
        statuses: int32 [n]: GOOD, or why an image is left to others.
        num_views: Views of an image.
        fresh: int64 [n, 2]: of an image whose scan stays on the device from this launch on, how many bytes before the arena's end
            it begins, and with which byte of the file; else 0.
    """

    arena: torch.Tensor
    totals: "NDArray[np.void]"
    numbers: NDArray[np.int32]
    statuses: NDArray[np.int32]
    num_views: int
    fresh: NDArray[np.int64]

    def fresh_bytes(self) -> torch.Tensor:
        """The bytes that stay on the device: uint8 [...] on the host."""
        return self.arena[self.arena.numel() - int(self.totals["fresh"][0]) :]


@dataclass(frozen=True, slots=True)
class Launched:
    """A batch that the device is working on.

    Attributes:
        planned: What the host made of it.
        statuses: int32 [images decoded here] on the device: what became of each; canvases of bad ones are undefined.
        job: JOB [1]: what the kernels got.
        memory: Must live until the kernels are through.
    """

    planned: Planned
    statuses: torch.Tensor
    job: "NDArray[np.void]"
    memory: tuple[torch.Tensor, ...]


def files_of(
    spans: NDArray[np.int64],
    offsets: Sequence[NDArray[np.int64] | None],
    known: "NDArray[np.void]",
    held: Any,
) -> Files:
    """List files, and what is known of each.

    Args:
        spans: int64 [n, 2], see `spans_of`.
        offsets: int64 [...] of each: where its restart intervals begin; None where that is not known.
        known: KNOWN [n].
        held: Keeps the bytes and the checkpoints in memory.
    """
    from dali_pipes.decode.cuda_jpeg.plan import FILE

    files = np.zeros(len(spans), FILE)
    files["address"], files["num_bytes"] = spans.T
    files["checkpoints"], files["num_checkpoints"] = known["address"], known["num_rows"]
    files["every"] = known["every"]
    starts = [one for one in offsets if one is not None]
    if starts:
        bounds = np.cumsum([0, *(0 if one is None else len(one) for one in offsets)])
        files["first_offset"], files["last_offset"] = bounds[:-1], bounds[1:]
    return Files(files, np.concatenate([_NO_OFFSETS, *starts]), held)


class Planner:
    """Plans batches; one thread at a time.

    Args:
        pinned: Whether arenas are read by a GPU.
    """

    def __init__(self, *, pinned: bool) -> None:
        self._pinned = pinned
        self._arena_bytes, self._intervals = _ARENA_BYTES, 1 << 12
        self._scratch = np.zeros(MEMORY_BYTES, np.uint8)
        self._stored = np.empty((4, 4, TABLE_BYTES), np.uint8)
        self._starts = np.empty(1 << 12, np.int64)
        self._records = self._new_records()

    def plan(self, files: Files, wanted: Wanted) -> Planned:
        """Find the intervals of a batch, and gather their bytes and records."""
        from dali_pipes.decode.cuda_jpeg.plan import TOTALS, plan_batch

        count, num_views = len(files.files), len(wanted.crops)
        numbers, statuses = np.empty(count, np.int32), np.empty(count, np.int32)
        fresh = np.empty((count, 2), np.int64)
        totals = np.zeros(1, TOTALS)
        fixed = count * (IMAGE_BYTES + num_views * VIEW_BYTES) + 4096
        staying = _bytes_to_stay(files.files)
        while True:
            changing = max(self._arena_bytes, 2 * fixed)
            arena = self._new_arena((changing + staying + 255) // 256 * 256)
            memories = (arena.numpy(), self._records, self._scratch, self._stored, self._starts)
            status = plan_batch(
                files.files, files.offsets, wanted.sizes, wanted.parts, wanted.crops,
                wanted.canvases, wanted.antialias, memories, numbers, statuses, fresh, totals,
            )  # fmt: skip
            if status == GOOD:
                used = int(totals["used"][0])
                self._arena_bytes = max(used + used // 4, self._arena_bytes // 2, _ARENA_BYTES)
                return Planned(arena, totals, numbers, statuses, num_views, fresh)
            self._grow(status, changing)

    def _new_arena(self, num_bytes: int) -> torch.Tensor:
        return torch.empty(num_bytes, dtype=torch.uint8, pin_memory=self._pinned)

    def _grow(self, lacking: int, changing: int) -> None:
        """Double the memory that a status of `plan_batch` says to be too small."""
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


def _bytes_to_stay(files: "NDArray[np.void]") -> int:
    """What the scans of FILE [n] that shall stay on the device take in an arena, at most."""
    return int((files["keep"] * (files["num_bytes"] + _SPACE_BYTES)).sum())


def launch(planned: Planned, kernels: Kernels, fresh: torch.Tensor | None = None) -> Launched:
    """Upload a batch and ask for its canvases, on torch's current stream; the host waits for nothing.

    Args:
        planned: The batch.
        kernels: Those of the device on which the canvases lie.
        fresh: Where `Planned.fresh_bytes` were copied on the device; None where there are none.
    """
    total, device = planned.totals[0], kernels.device
    num_images = int(total["num_images"])
    num_views = num_images * planned.num_views
    zeroed, places = _places(int(total["blocks"]), num_images, num_views)
    arena = planned.arena[: int(total["used"])].to(device, non_blocking=True)
    workspace = torch.empty(zeroed + int(total["memory"]), dtype=torch.uint8, device=device)
    workspace[:zeroed].zero_()
    job = np.zeros(1, JOB)
    base, start = arena.data_ptr(), workspace.data_ptr()
    job["workspace"], job["images"] = start + zeroed, base
    job["views"] = base + len(planned.numbers) * IMAGE_BYTES
    if fresh is not None:
        job["fresh"] = fresh.data_ptr() + fresh.numel()
    for name in ("data", "tables", "groups", "intervals"):
        job[name] = base + total[f"{name}_at"]
    for name, place in places.items():
        job[name] = start + place
    job["num_groups"], job["num_images"] = total["num_groups"], num_images
    job["num_views"] = num_views
    if num_images:
        for name, grid in _grids(total, num_images, num_views):
            kernels.launch(name, grid, job)
    at = places["statuses"]
    statuses = workspace[at : at + 4 * num_images].view(torch.int32)
    held = (arena, workspace) if fresh is None else (arena, workspace, fresh)
    return Launched(planned, statuses, job, held)


def _places(blocks: int, num_images: int, num_views: int) -> tuple[int, dict[str, int]]:
    """The bytes of the workspace that begin as zeros, and where in them what lies."""
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


def _grids(total: Any, num_images: int, num_views: int) -> list[tuple[str, tuple[int, int]]]:
    """The blocks of threads of each kernel."""
    from dali_pipes.decode.cuda_jpeg.on_gpu import THREADS

    def wide(items: int, count: int) -> int:
        most = max(_GRID_MOST // count, 16)
        return max(1, min(-(-items // THREADS), most))

    blocks = int(total["blocks"]) // num_images
    return [
        ("read_codes", (int(total["num_groups"]) + 2 * num_views, 1)),
        ("invert", (wide(blocks, num_images), num_images)),
        ("color", (wide(int(total["pixels"]), num_images), num_images)),
        ("resize", (wide(int(total["seen"]), num_views), num_views)),
    ]
