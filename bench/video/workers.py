"""A library's video pipeline, in the worker processes of torch's DataLoader, or in threads."""

import time
from collections.abc import Iterator
from functools import partial
from typing import ClassVar

import torch
from torch.utils.data import DataLoader, Dataset, default_collate

from bench.compare.contestant import Kind, Share, share_of
from bench.compare.threads import NUM_AHEAD, ThreadedBatches
from bench.timing.limits import one_thread
from bench.video.libraries import NUM_TRIED, ClipReader
from bench.video.plan import ClipFooting

_NUM_SAMPLES_MIN = 200_000  # as many as no comparison takes, so that no epoch ends within it
_NUM_INSTRUMENTED = 8


class _OfReader:
    """What processes and threads share."""

    kind: Kind = "baseline"
    where: ClassVar[str]

    def __init__(self, reader: ClipReader, footing: ClipFooting) -> None:
        self.name = f"{reader.name} ({self.where})"
        self.note = reader.note
        self._reader = reader
        self._footing = footing

    def share(self) -> Share:
        """Time both steps of a few clips in this thread, one after the other."""
        reader, plan = self._reader, self._footing.plan
        decode = augment = 0.0
        tensors = []
        with one_thread():
            for clip in plan.first(_NUM_INSTRUMENTED):
                start = time.perf_counter()
                frames = reader.decode(clip)
                decoded = time.perf_counter()
                tensors.append(reader.augment(frames))
                decode += decoded - start
                augment += time.perf_counter() - decoded
            start = time.perf_counter()
            default_collate(tensors).to(self._footing.device)
            copy = time.perf_counter() - start
        seconds = {"read": 0.0, "decode": decode, "augment": augment, "copy": copy}
        return {**share_of(seconds), "read": None}  # decoding reads

    def _settle(self) -> None:
        with one_thread():
            self._reader.settle(self._footing.plan.first(NUM_TRIED))
        self.note = self._reader.note


class ClipProcesses(_OfReader):
    """A reader in a DataLoader whose workers stay alive."""

    where = "processes"

    def __init__(self, reader: ClipReader, footing: ClipFooting) -> None:
        super().__init__(reader, footing)
        self.num_ahead = NUM_AHEAD * footing.num_threads
        # What was prefetched, and then the batches that the workers begin all at once.
        self.num_discard = self.num_ahead + footing.num_threads
        self._batches: Iterator[torch.Tensor] | None = None

    def open(self) -> None:
        """Start the workers."""
        self._settle()
        footing = self._footing
        loader = DataLoader(
            _Clips(self._reader, footing),
            batch_size=footing.batch_size,
            num_workers=footing.num_threads,
            pin_memory=footing.device.type == "cuda",
            worker_init_fn=self._reader.worker_init,
            prefetch_factor=NUM_AHEAD,
            persistent_workers=True,
        )
        self._batches = iter(loader)

    def next_batch(self) -> torch.Tensor:
        """Take a batch and bring it to the device, as a training loop does."""
        if self._batches is None:
            raise RuntimeError(f"{self.name} is not open")
        return next(self._batches).to(self._footing.device, non_blocking=True)

    def close(self) -> None:
        """Stop the workers."""
        self._batches = None


class ClipThreads(_OfReader):
    """A reader in threads; the consumer joins their clips to batches."""

    where = "threads"
    num_ahead = NUM_AHEAD
    num_discard = NUM_AHEAD + 1
    _batches: ThreadedBatches[torch.Tensor] | None = None

    def open(self) -> None:
        """Start the threads."""
        self._settle()
        worker_init = self._reader.worker_init
        if worker_init is not None:
            worker_init(0)  # OpenCV's number of threads is that of the process
        footing, work = self._footing, _Clips(self._reader, self._footing).__getitem__
        # As in a DataLoader's worker: torch takes no threads of its own.
        self._batches = ThreadedBatches(
            work, footing.batch_size, footing.num_threads, partial(torch.set_num_threads, 1)
        )

    def next_batch(self) -> torch.Tensor:
        """Wait for the oldest batch, begin another one, and bring it to the device."""
        if self._batches is None:
            raise RuntimeError(f"{self.name} is not open")
        return torch.stack(self._batches.next()).to(self._footing.device, non_blocking=True)

    def close(self) -> None:
        """Drop what is under way."""
        if self._batches is not None:
            self._batches.close()
            self._batches = None


class _Clips(Dataset[torch.Tensor]):
    """The clips of a race, over and over."""

    def __init__(self, reader: ClipReader, footing: ClipFooting) -> None:
        self._reader, self._plan, self._dtype = reader, footing.plan, footing.dtype

    def __len__(self) -> int:
        return _NUM_SAMPLES_MIN

    def __getitem__(self, position: int) -> torch.Tensor:
        clip = self._reader.augment(self._reader.decode(self._plan[position]))
        return clip.to(self._dtype)
