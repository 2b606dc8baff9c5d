"""Turning plans into finished batches, several under way at once: without DALI, and with it."""

import warnings
from collections import deque
from concurrent.futures import Future
from typing import Any, Protocol

import numpy as np
import torch
from torch.utils.dlpack import from_dlpack

from dali_pipes import cpu
from dali_pipes.feed import Feed
from dali_pipes.finish import Finisher, Pending
from dali_pipes.plan import Plan
from dali_pipes.work import Work, Workshop, rows_for_cpu


class Producer(Protocol):
    """Takes plans in and gives finished batches out, in the same order."""

    @property
    def capacity(self) -> int:
        """How many batches may be under way beside the one that is waited for."""

    def submit(self, plan: Plan) -> None:
        """Start on a batch; returns at once."""

    def take(self) -> tuple[Work, torch.Tensor]:
        """Wait for the oldest batch: its work and its images [B, 3, H, W]."""

    def close(self) -> None:
        """Drop what is under way and end the threads."""


class CpuProducer:
    """Decodes with threads of our own."""

    def __init__(self, workshop: Workshop, finisher: Finisher, prefetch: int) -> None:
        self.capacity = prefetch
        self._workshop = workshop
        self._finisher = finisher
        self._under_way: deque[Future[Pending]] = deque()

    def submit(self, plan: Plan) -> None:
        """Start on a batch; returns at once."""
        self._under_way.append(self._finisher.pool.submit(self._begin, plan))

    def take(self) -> tuple[Work, torch.Tensor]:
        """Wait for the oldest batch: its work and its images [B, 3, H, W]."""
        pending = self._under_way.popleft().result()
        return pending.work, pending.wait()

    def close(self) -> None:
        """Drop what is under way and end the threads."""
        self._finisher.close()

    def _begin(self, plan: Plan) -> Pending:
        work = self._workshop.prepare(plan)
        return self._finisher.spawn(
            work, lambda row, out: draw_on_cpu(self._workshop, work, row, out)
        )


class DaliProducer:
    """Decodes with DALI, driven by the thread that takes the batches.

    On the CPU DALI cuts the windows out and our threads resample them: torch's kernel takes a third of the
    time of DALI's and is torchvision's to the bit. On a GPU DALI does both.
    """

    def __init__(self, workshop: Workshop, finisher: Finisher, feed: Feed) -> None:
        self._workshop = workshop
        self._finisher = finisher
        self._feed = feed
        self._preparing: deque[Future[Work]] = deque()
        self._finishing: deque[Pending] = deque()
        # Windows are resampled by our threads, one batch ahead of the one that is waited for.
        self._lookahead = 1 if feed.options.canvases else 2
        self.capacity = feed.options.depth + self._lookahead

    def submit(self, plan: Plan) -> None:
        """Start on a batch; returns at once."""
        self._preparing.append(self._finisher.pool.submit(self._workshop.prepare, plan))

    def take(self) -> tuple[Work, torch.Tensor]:
        """Wait for the oldest batch: its work and its images [B, 3, H, W]."""
        self._push()
        while len(self._finishing) < self._lookahead and len(self._feed):
            self._finishing.append(self._collect())
            self._push()
        pending = self._finishing.popleft()
        return pending.work, pending.wait()

    def close(self) -> None:
        """Drop what is under way and end the threads."""
        self._finisher.close()
        self._feed.drain()

    def _push(self) -> None:
        while self._preparing and len(self._feed) < self._feed.options.depth:
            work = self._preparing.popleft().result()
            self._feed.push(work, set(rows_for_cpu(work)))

    def _collect(self) -> Pending:
        device = self._finisher.target.device
        stream = torch.cuda.current_stream(device) if device.type == "cuda" else None
        with self._finisher.timings.measure("decode"):
            work, hidden, output = self._feed.take(stream)
            if output is None:
                hidden, output = self._recover(work, hidden, stream)
        if self._feed.options.canvases:
            return self._augment(work, hidden, output)
        cuts = None if output is None else [np.asarray(cut) for cut in output]

        def draw_row(row: int, out: torch.Tensor) -> bool:
            if cuts is None or row in hidden or work.data[row] is None:
                return draw_on_cpu(self._workshop, work, row, out)
            cpu.fit(cuts[row], work.draws.windows, row, out)
            return True

        return self._finisher.spawn(work, draw_row)

    def _recover(self, work: Work, hidden: set[int], stream: Any) -> tuple[set[int], Any | None]:
        """Find the samples for which DALI refused the batch, and decode the others again."""

        def judge(row: int) -> None:
            self._workshop.decode(work, row)

        rows = [row for row in range(len(work)) if row not in hidden]
        list(self._finisher.pool.map(judge, rows))
        hidden = set(rows_for_cpu(work))
        output = self._feed.again(work, hidden, stream)
        if output is None:
            warnings.warn(
                f"DALI refused a batch in which every sample decodes on the CPU, where it is decoded "
                f"now; DALI said: {self._feed.refusal}",
                RuntimeWarning,
                stacklevel=2,
            )
            hidden = set(range(len(work)))
        return hidden, output

    def _augment(self, work: Work, hidden: set[int], output: Any | None) -> Pending:
        target = self._finisher.target
        if output is None:
            shape = (len(work), *target.canvas, 3)
            canvases = torch.zeros(shape, dtype=torch.uint8, device=target.device)
        else:
            canvases = from_dlpack(output.as_tensor())[: len(work)]
        rows = sorted(row for row in hidden if work.data[row] is not None)
        if rows:
            pinned = target.device.type == "cuda"
            drawn = torch.empty(
                (len(rows), *target.canvas, 3), dtype=torch.uint8, pin_memory=pinned
            )

            def draw(place: int) -> None:
                draw_on_cpu(self._workshop, work, rows[place], drawn[place])

            list(self._finisher.pool.map(draw, range(len(rows))))
            places = torch.tensor(rows, pin_memory=pinned).to(target.device, non_blocking=True)
            drawn = drawn.to(target.device, non_blocking=True)
            canvases = canvases.index_copy(0, places, drawn)
        images = self._finisher.augment(work, canvases)
        return Pending(work, [], lambda: images)


def draw_on_cpu(workshop: Workshop, work: Work, row: int, out: torch.Tensor) -> bool:
    """Decode a row's image and draw its canvas, uint8 [height, width, 3]; False if it is lost."""
    image = workshop.decode(work, row)
    if image is None:
        return False
    cpu.resample(image, work.draws.windows, row, out)
    return True
