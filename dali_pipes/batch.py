"""What the loader hands over: a batch, and where the time went."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

import torch

Stage = Literal["read", "decode", "augment", "copy", "wait"]


@dataclass(frozen=True, slots=True)
class Batch:
    """One step's samples on one rank, B of them.

    B is `batch_size`, except for the last batch under last_batch="partial" and for batches that lost
    samples under on_bad_sample="skip"; then B may be smaller, down to 0.

    Attributes:
        images: [B, 3, H, W], of the loader's dtype, on its device. In [0, 1] unless the recipe
            normalises; 0 to 255 for torch.uint8.
        labels: int64 [B] on the loader's device; -1 where the data has no label.
        indices: int64 [B] on the CPU: the positions of the samples in the dataset.
        keys: The samples' names, for people.
        valid: bool [B] on the CPU: False in rows that repeat a sample to fill up the last batch.
    """

    images: torch.Tensor
    labels: torch.Tensor
    indices: torch.Tensor
    keys: list[str]
    valid: torch.Tensor

    def __len__(self) -> int:
        return len(self.keys)

    def __repr__(self) -> str:
        images = f"{str(self.images.dtype).removeprefix('torch.')} {list(self.images.shape)}"
        return f"Batch(images={images} on {self.images.device}, valid={int(self.valid.sum())})"


@dataclass(slots=True)
class Timings:
    """Seconds spent since the epoch began.

    Read, decode, augment and copy are summed over the threads that do them, so together they may exceed
    the wall clock. On a GPU they count the host's part alone. Wait is what the training loop waited.
    """

    read: float = 0.0
    decode: float = 0.0
    augment: float = 0.0
    copy: float = 0.0
    wait: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def reset(self) -> None:
        """Begin a new epoch."""
        with self._lock:
            self.read = self.decode = self.augment = self.copy = self.wait = 0.0

    @contextmanager
    def measure(self, stage: Stage) -> Iterator[None]:
        """Add the duration of the block to a stage; safe from any thread."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.add(stage, time.perf_counter() - began)

    def add(self, stage: Stage, seconds: float) -> None:
        """Add a duration to a stage; safe from any thread."""
        with self._lock:
            setattr(self, stage, getattr(self, stage) + seconds)
