"""A baseline inside torch's DataLoader."""

import time
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, default_collate

from bench.baselines.libraries import Baseline, Kornia
from bench.compare.contestant import Footing, Kind, Share, share_of
from bench.compare.timer import synchronise
from bench.timing.limits import one_thread

_NUM_SAMPLES_MIN = 200_000  # as many as no comparison takes, so that no epoch ends within it
_NUM_PREFETCHED = 2  # batches per worker, torch's default
_NUM_INSTRUMENTED = 48


class TorchLoader:
    """A baseline in a DataLoader whose workers stay alive."""

    kind: Kind = "baseline"

    def __init__(self, baseline: Baseline, footing: Footing) -> None:
        self.name = baseline.name
        self.note = baseline.note
        if footing.dtype != torch.float32 and not isinstance(baseline, Kornia):
            self.note += ", .to(dtype) in the worker"
        self.num_ahead = _NUM_PREFETCHED * footing.num_threads
        # What was prefetched, and then the batches that the workers begin all at once.
        self.num_discard = self.num_ahead + footing.num_threads
        self._baseline = baseline
        self._footing = footing
        self._batches: Iterator[Any] | None = None

    def open(self) -> None:
        """Start the workers."""
        footing = self._footing
        loader = DataLoader(
            _Files(self._baseline, footing),
            batch_size=footing.batch_size,
            shuffle=True,
            num_workers=footing.num_threads,
            pin_memory=footing.device.type == "cuda",
            drop_last=True,
            worker_init_fn=self._baseline.worker_init,
            prefetch_factor=_NUM_PREFETCHED,
            persistent_workers=True,
        )
        self._batches = iter(loader)

    def next_batch(self) -> torch.Tensor:
        """Take a batch and bring it to the device, as a training loop does."""
        if self._batches is None:
            raise RuntimeError(f"{self.name} is not open")
        images, _ = next(self._batches)
        moved = images.to(self._footing.device, non_blocking=True)
        return self._baseline.finish(moved).to(self._footing.dtype)

    def share(self) -> Share:
        """Time every step of a few dozen images in this thread, one after the other."""
        baseline, footing = self._baseline, self._footing
        seconds = dict.fromkeys(("read", "decode", "augment", "copy"), 0.0)
        tensors = []
        with one_thread():
            for path in footing.spread(_NUM_INSTRUMENTED):
                path.read_bytes()  # so that no file is colder for the first look than for the second
                start = time.perf_counter()
                path.read_bytes()
                read = time.perf_counter()
                image = baseline.open(path)
                opened = time.perf_counter()
                tensors.append(baseline.augment(image))
                seconds["read"] += read - start
                # open() reads as well; its own reading is taken off.
                seconds["decode"] += max(0.0, (opened - read) - (read - start))
                seconds["augment"] += time.perf_counter() - opened
            start = time.perf_counter()
            images = default_collate(tensors).to(footing.device)
            copied = time.perf_counter()
            baseline.finish(images).to(footing.dtype)
            synchronise(footing.device)
            seconds["copy"] = copied - start
            seconds["augment"] += time.perf_counter() - copied
        return share_of(seconds)

    def close(self) -> None:
        """Stop the workers."""
        self._batches = None


class _Files(Dataset[tuple[torch.Tensor, int]]):
    """The footing's files, over and over."""

    def __init__(self, baseline: Baseline, footing: Footing) -> None:
        self._baseline = baseline
        self._files = footing.files
        self._labels = footing.labels
        self._dtype = footing.dtype

    def __len__(self) -> int:
        return max(_NUM_SAMPLES_MIN, len(self._files))

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        index %= len(self._files)
        image = self._baseline.augment(self._baseline.open(self._files[index]))
        if image.is_floating_point():
            # Image by image in the worker: 491 images/s; in its collate 469, in the trainer 452.
            image = image.to(self._dtype)
        return image, self._labels[index]
