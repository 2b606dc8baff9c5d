"""A cache of encoded images on the device, so that later epochs do not upload them again."""

import numpy as np
import torch
from numpy.typing import NDArray

from dali_pipes.decode.cuda_jpeg.batch import LaunchPlan

PIECE_BYTES = 1 << 28
"""The cache allocates memory in pieces of this size; it is full when the next piece does not fit."""

USUAL_BYTES = 110_000
"""Size of a photograph of 0.2 megapixels, for estimates."""


class DeviceCache:
    """Caches the codes of JPEGs on the device; it grows while the free memory there exceeds its own size.

    The cache never evicts: the first files stay, and files that arrive when it is full are uploaded each time. A file
    is identified by the digest of its bytes (`digests_of`) and its length, so a changed file is a new file. Any
    thread may call `look_up`. Only one thread may call `put`, in launch order. All copies and reads of the cache use
    one stream. The memory is freed with the cache, so a launch must hold a reference to the cache until it is enqueued;
    after that, stream order protects the memory.

    Args:
        device: A CUDA device.

    Attributes:
        num_files: Count of cached files.
        num_bytes: Allocated device memory in bytes.
        is_full: Whether no further files are added.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.num_files = self.num_bytes = 0
        self.is_full = False
        self._pieces = list[torch.Tensor]()
        self._used = 0  # bytes in use of the last piece
        self._numbers = dict[int, int]()
        # Columns: bytes of the file, device address of the cached part, and that part's offset in the file.
        self._known = np.zeros((1024, 3), np.int64)

    def look_up(self, files: "NDArray[np.void]", digests: NDArray[np.uint64]) -> None:
        """Set `kept` and `keep` in FILE [n] (see `plan.FILE`): which scans are on the device, and which to cache there.

        Args:
            files: FILE [n] with addresses and lengths.
            digests: uint64 [n], the digest of each file's bytes.
        """
        get = self._numbers.get
        numbers = np.array([get(digest, -1) for digest in digests.tolist()], np.int64)
        known = self._known[numbers]
        is_there = (numbers >= 0) & (known[:, 0] == files["num_bytes"])
        files["kept"], files["kept_start"] = np.where(is_there, known[:, 1:].T, 0)
        files["keep"] = (numbers < 0) & (not self.is_full)

    def put(
        self, planned: LaunchPlan, files: "NDArray[np.void]", digests: NDArray[np.uint64]
    ) -> torch.Tensor | None:
        """Upload the new scans of a launch on torch's current stream, and cache them if there is room.

        Args:
            planned: The plan of the launch.
            files: FILE [n] of the launch.
            digests: uint64 [n], the digest of each file's bytes.

        Returns:
            The copy of `LaunchPlan.fresh_bytes` on the device; None if the launch adds no scan to the cache.
        """
        fresh = planned.fresh_bytes()
        if not len(fresh):
            return None
        place = self._room(len(fresh))
        if place is None:
            return fresh.to(self._device, non_blocking=True)
        place.copy_(fresh, non_blocking=True)
        rows = np.flatnonzero(planned.fresh[:, 0])
        end = place.data_ptr() + len(fresh)
        self._add(digests[rows], files["num_bytes"][rows], end - planned.fresh[rows, 0], planned.fresh[rows, 1])  # fmt: skip
        return place

    def _add(self, digests: NDArray[np.uint64], *columns: NDArray[np.int64]) -> None:
        first, last = self.num_files, self.num_files + len(digests)
        if last > len(self._known):
            grown = np.zeros((2 * last, 3), np.int64)
            grown[:first] = self._known[:first]
            self._known = grown
        self._known[first:last] = np.stack(columns, axis=1)
        self.num_files = last
        # Updated last: other threads look the number up first, and the row behind it second.
        self._numbers.update(zip(digests.tolist(), range(first, last), strict=True))

    def _room(self, num_bytes: int) -> torch.Tensor | None:
        """Return `num_bytes` bytes of unused device memory; None if the cache is full."""
        if not self._pieces or self._used + num_bytes > self._pieces[-1].numel():
            piece_bytes = max(PIECE_BYTES, num_bytes)
            left = free_bytes(self._device) - piece_bytes
            if self.is_full or left < self.num_bytes + piece_bytes:
                self.is_full = True
                return None
            self._pieces.append(torch.empty(piece_bytes, dtype=torch.uint8, device=self._device))
            self.num_bytes += piece_bytes
            self._used = 0
        place = self._pieces[-1][self._used : self._used + num_bytes]
        self._used += (num_bytes + 255) // 256 * 256
        return place


def free_bytes(device: torch.device) -> int:
    """Return the free bytes of a GPU's memory, including memory that torch reserves but does not use."""
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def describe_cache(device: torch.device) -> str:
    """Return a sentence that describes the cache and its present room."""
    room = free_bytes(device) // 2
    return (
        f"cache: the bytes of JPEGs stay on {device} once they are uploaded, as long as more of its memory is free than they take: "
        f"as it is now {room / 1e9:.1f} GB, {room // USUAL_BYTES:,} images of {USUAL_BYTES // 1000} kB"
    )
