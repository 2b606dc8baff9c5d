"""Encoded images that stay on a device, so that later epochs upload nothing of them."""

import numpy as np
import torch
from numpy.typing import NDArray

from dali_pipes.decode.cuda_jpeg.batch import Planned

PIECE_BYTES = 1 << 28
"""Memory is taken in pieces of this size."""

USUAL_BYTES = 110_000
"""Of a photograph of 0.2 megapixels, for estimates."""


class DeviceCache:
    """Keeps the scans of files where they were uploaded first, as long as more memory of the device is free than that takes.

    What came first stays; what comes once it is full is uploaded each time. A file is known by `digests_of` its bytes and by
    their number, so that one that changed is another one. Any thread may look up; one puts, in the order of the launches, and all
    that is put and read is so on one stream. The memory goes back with the cache, so who launches what was looked up holds it until
    then; behind that the stream's order protects it.

    Args:
        device: Where.

    Attributes:
        num_files: How many are kept.
        num_bytes: Memory that is taken.
        is_full: Whether no more is kept.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.num_files = self.num_bytes = 0
        self.is_full = False
        self._pieces = list[torch.Tensor]()
        self._used = 0  # of the last piece
        self._numbers = dict[int, int]()
        self._known = np.zeros(
            (1024, 3), np.int64
        )  # of each: bytes of the file, address, and the file's byte that is there

    def look_up(self, files: "NDArray[np.void]", digests: NDArray[np.uint64]) -> None:
        """Write into FILE [n] of `plan.py` what is there, and what shall come to be there.

        Args:
            files: Its addresses and lengths are known.
            digests: uint64 [n], of all bytes of each.
        """
        get = self._numbers.get
        numbers = np.array([get(digest, -1) for digest in digests.tolist()], np.int64)
        known = self._known[numbers]
        is_there = (numbers >= 0) & (known[:, 0] == files["num_bytes"])
        files["kept"], files["kept_start"] = np.where(is_there, known[:, 1:].T, 0)
        files["keep"] = (numbers < 0) & (not self.is_full)

    def put(
        self, planned: Planned, files: "NDArray[np.void]", digests: NDArray[np.uint64]
    ) -> torch.Tensor | None:
        """Upload what a batch brings, on torch's current stream, and keep it if there is room.

        Args:
            planned: The batch.
            files: FILE [n] of it.
            digests: uint64 [n].

        Returns:
            Where `Planned.fresh_bytes` are on the device; None where there are none.
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
        self._numbers.update(
            zip(digests.tolist(), range(first, last), strict=True)
        )  # last: others read both

    def _room(self, num_bytes: int) -> torch.Tensor | None:
        """Memory that nothing is in; None where the cache is full."""
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
    """Memory of a GPU that nobody uses, what torch holds in reserve included."""
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def told(device: torch.device) -> str:
    """What is kept, and how much room there is now, in words for people."""
    room = free_bytes(device) // 2
    return (
        f"cache: the bytes of JPEGs stay on {device} once they are uploaded, as long as more of its memory is free than they take: "
        f"as it is now {room / 1e9:.1f} GB, {room // USUAL_BYTES:,} images of {USUAL_BYTES // 1000} kB"
    )
