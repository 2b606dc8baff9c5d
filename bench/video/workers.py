"""A library's way to clips, in the worker processes of torch's DataLoader, or in threads."""

import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from typing import ClassVar

import torch
from torch.utils.data import DataLoader, Dataset, default_collate

from bench.compare.contestant import Kind, Share, share_of
from bench.micro.turns import one_thread
from bench.video.libraries import NUM_TRIED, ClipReader
from bench.video.plan import ClipFooting

_NUM_AHEAD = 2  # batches per worker, torch's default; and of all threads together
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
        self.num_ahead = _NUM_AHEAD * footing.num_threads
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
            prefetch_factor=_NUM_AHEAD,
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
    num_ahead = _NUM_AHEAD
    num_discard = _NUM_AHEAD + 1

    def __init__(self, reader: ClipReader, footing: ClipFooting) -> None:
        super().__init__(reader, footing)
        self._pool: ThreadPoolExecutor | None = None
        self._under_way: deque[list[Future[torch.Tensor]]] = deque()
        self._starts = count(0, footing.batch_size)

    def open(self) -> None:
        """Start the threads."""
        self._settle()
        worker_init = self._reader.worker_init
        if worker_init is not None:
            worker_init(0)  # OpenCV's number of threads is that of the process
        # As in a DataLoader's worker: torch takes no threads of its own.
        self._pool = ThreadPoolExecutor(
            self._footing.num_threads, initializer=torch.set_num_threads, initargs=(1,)
        )
        for _ in range(_NUM_AHEAD):
            self._submit()

    def next_batch(self) -> torch.Tensor:
        """Wait for the oldest batch, begin another one, and bring it to the device."""
        self._submit()
        clips = [future.result() for future in self._under_way.popleft()]
        return torch.stack(clips).to(self._footing.device, non_blocking=True)

    def close(self) -> None:
        """Drop what is under way."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def _submit(self) -> None:
        if self._pool is None:
            raise RuntimeError(f"{self.name} is not open")
        start, size = next(self._starts), self._footing.batch_size
        work = _Clips(self._reader, self._footing).__getitem__
        self._under_way.append([self._pool.submit(work, start + row) for row in range(size)])


class _Clips(Dataset[torch.Tensor]):
    """The clips of a race, over and over."""

    def __init__(self, reader: ClipReader, footing: ClipFooting) -> None:
        self._reader, self._plan, self._dtype = reader, footing.plan, footing.dtype

    def __len__(self) -> int:
        return _NUM_SAMPLES_MIN

    def __getitem__(self, position: int) -> torch.Tensor:
        clip = self._reader.augment(self._reader.decode(self._plan[position]))
        return clip.to(self._dtype)
