"""Turning plans into finished batches, several under way at once: without DALI, and with it."""

import warnings
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from torch.utils.dlpack import from_dlpack

from dali_pipes.decode.dali.feed import Feed
from dali_pipes.pipeline.augment import Canvases, Finisher, Pending, Sheets
from dali_pipes.pipeline.fetch import Work, Workshop, rows_for_cpu
from dali_pipes.pipeline.render import draw_encoded, draw_one, draw_parts
from dali_pipes.pipeline.streams import SideStream
from dali_pipes.schedule import Plan
from dali_pipes.targets import upload
from dali_pipes.video.draw import ClipDrawer
from dali_pipes.warm import compile_ahead


class Producer(Protocol):
    """Takes plans in and gives finished batches out, in the same order."""

    @property
    def capacity(self) -> int:
        """How many batches may be under way beside the one that is waited for."""

    def submit(self, plan: Plan) -> None:
        """Start on a batch; returns at once."""

    def take(self) -> tuple[Work, tuple[torch.Tensor, ...]]:
        """Wait for the oldest batch: its work and per view the images of all its rows, [images, 3, H, W]."""

    def close(self) -> None:
        """Drop what is under way and end the threads."""


class CpuProducer:
    """Decodes with threads of our own."""

    def __init__(
        self, workshop: Workshop, finisher: Finisher, prefetch: int, *, fast: bool
    ) -> None:
        self.capacity = prefetch
        self._fast = fast
        self._workshop = workshop
        self._finisher = finisher
        self._under_way: deque[Future[Pending]] = deque()
        fused = [view for view in finisher.views if getattr(view.engine, "name", "") == "fused"]
        compile_ahead([view.recipe for view in fused if view.device.type == "cpu"])

    def submit(self, plan: Plan) -> None:
        """Start on a batch; returns at once."""
        self._under_way.append(self._finisher.pool.submit(self._begin, plan))

    def take(self) -> tuple[Work, tuple[torch.Tensor, ...]]:
        """Wait for the oldest batch: its work and per view the images of all its rows, [images, 3, H, W]."""
        pending = self._under_way.popleft().result()
        return pending.work, pending.wait()

    def close(self) -> None:
        """Drop what is under way and end the threads."""
        self._finisher.close()

    def _begin(self, plan: Plan) -> Pending:
        work = self._workshop.prepare(plan)
        if self._workshop.clips is not None:
            return self._finisher.spawn(work, ClipDrawer(self._workshop, work))
        draw = partial(draw_encoded, self._workshop, work, fast=self._fast)
        return self._finisher.spawn(work, draw)


@dataclass(frozen=True, slots=True)
class Drawing:
    """Canvases that our threads draw of rows that DALI does not."""

    sheets: Sheets
    tasks: list[Future[None]]

    def wait(self) -> None:
        """Return once they are drawn; raise what a thread raised."""
        for task in self.tasks:
            task.result()


class DaliProducer:
    """Decodes with DALI, driven by the thread that takes the batches.

    On the CPU DALI cuts the windows out and our threads resample them: torch's kernel takes a third of the
    time of DALI's and is torchvision's to the bit. On a GPU DALI does both, and the engine runs on a stream of its
    own, beside the training step, and our threads draw what DALI must not decode while it decodes the rest.
    """

    def __init__(self, workshop: Workshop, finisher: Finisher, feed: Feed) -> None:
        self._workshop = workshop
        self._finisher = finisher
        self._feed = feed
        self._drawing: deque[Drawing] = deque()
        self._side = SideStream(finisher.device)
        self._preparing: deque[Future[Work]] = deque()
        self._finishing: deque[Pending] = deque()
        # Windows are resampled by our threads, one batch ahead of the one that is waited for.
        self._lookahead = 1 if feed.options.canvases else 2
        self.capacity = feed.options.depth + self._lookahead

    def submit(self, plan: Plan) -> None:
        """Start on a batch; returns at once."""
        self._preparing.append(self._finisher.pool.submit(self._workshop.prepare, plan))

    def take(self) -> tuple[Work, tuple[torch.Tensor, ...]]:
        """Wait for the oldest batch: its work and per view the images of all its rows, [images, 3, H, W]."""
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
            hidden = set(rows_for_cpu(work))
            self._feed.push(work, hidden)
            if self._feed.options.canvases:
                lost = {row for row, data in enumerate(work.data) if data is None}
                self._drawing.append(self._draw(work, sorted(hidden | lost)))

    def _draw(self, work: Work, rows: list[int]) -> Drawing:
        """Start drawing the canvases of rows."""
        finisher = self._finisher
        sheets = Sheets(work, rows, finisher.views, pinned=finisher.device.type == "cuda")
        draw = partial(draw_one, self._workshop, work, sheets)
        return Drawing(sheets, [finisher.pool.submit(draw, place) for place in range(len(rows))])

    def _collect(self) -> Pending:
        stream = self._side.stream
        with self._finisher.timings.measure("decode"):
            work, hidden, outputs = self._feed.take(stream)
            drawing = self._drawing.popleft() if self._drawing else None
            if drawing is not None:
                drawing.wait()
            if outputs is None:
                hidden, outputs = self._recover(work, hidden, stream)
        if drawing is not None:
            return self._augment(work, hidden, outputs, drawing)
        if outputs is None:
            return self._finisher.spawn(work, partial(draw_encoded, self._workshop, work))
        parts = [None if row in hidden else np.asarray(cut) for row, cut in enumerate(outputs[0])]
        return self._finisher.spawn(work, partial(draw_parts, self._workshop, work, parts))

    def _recover(
        self, work: Work, hidden: set[int], stream: Any
    ) -> tuple[set[int], Sequence[Any] | None]:
        """Find the samples for which DALI refused the batch, and decode the others again."""

        def judge(row: int) -> None:
            self._workshop.decode(work, row)

        rows = [row for row in range(len(work)) if row not in hidden]
        list(self._finisher.pool.map(judge, rows))
        hidden = set(rows_for_cpu(work))
        outputs = self._feed.again(work, hidden, stream)
        if outputs is None:
            rows = [
                row for row, data in enumerate(work.data) if data is not None and row not in hidden
            ]
            refused = self._refused(work, rows)
            named = ", ".join(work.keys[row] for row in refused[:3])
            warnings.warn(
                f"DALI refused {len(refused)} of {len(rows)} samples that decode on the CPU, where they are "
                f"decoded now ({named}); DALI said: {self._feed.refusal}",
                RuntimeWarning,
                stacklevel=2,
            )
            hidden.update(refused)
            outputs = None if len(refused) == len(rows) else self._feed.again(work, hidden, stream)
        return hidden, outputs

    def _refused(self, work: Work, rows: list[int]) -> list[int]:
        """Which of some rows DALI refuses, looked for by halves; all, where it takes them in no smaller number."""
        if len(rows) < 2:
            return rows
        everything = set(range(len(work)))
        if self._feed.again(work, everything) is None:
            return rows  # it refuses whatever it gets
        middle, refused = len(rows) // 2, []
        for part in (rows[:middle], rows[middle:]):
            if self._feed.again(work, everything - set(part)) is None:
                refused += self._refused(work, part)
        return refused or rows

    def _augment(
        self, work: Work, hidden: set[int], outputs: Sequence[Any] | None, drawing: Drawing
    ) -> Pending:
        """Go on from DALI's canvases on the engines' device; hidden rows are drawn already, unless there are more of them now."""
        finisher = self._finisher
        workshop = self._workshop
        decoded = set() if outputs is None else set(range(len(work))) - hidden
        decoded -= {row for row, data in enumerate(work.data) if data is None}
        asked = [row for row in sorted(decoded) if workshop.targets.wants(work.fields[row])]
        good = list(finisher.pool.map(partial(workshop.read_targets, work), asked))
        sound = decoded - {row for row, kept in zip(asked, good, strict=True) if not kept}
        others = [row for row in range(len(work)) if row not in sound]
        if others != drawing.sheets.rows:
            drawing = self._draw(work, others)
            drawing.wait()
        sheets = drawing.sheets
        if any(found.targets for found in work.found):
            move = partial(finisher.move_targets, work)
            list(finisher.pool.map(move, *zip(*finisher.chunks(len(work)), strict=True)))

        def finish() -> tuple[torch.Tensor, ...]:
            drawn = finisher.upload(sheets)
            canvases = [
                join(None if outputs is None else outputs[view], drawn[view], others, len(work))
                for view in range(len(drawn))
            ]
            return finisher.augment(work, canvases)

        return Pending(work, [], self._side.run(finish).take)


def join(output: Any | None, drawn: Canvases, rows: Sequence[int], count: int) -> Canvases:
    """Put canvases that were drawn on the CPU among those that DALI drew.

    Args:
        output: DALI's TensorList of canvases; None where all of them were drawn.
        drawn: Canvases of `rows`, on DALI's device.
        rows: Ascending.
        count: How many canvases there are together.
    """
    if isinstance(drawn, list):
        mine = dict(zip(rows, drawn, strict=True))
        return [
            mine[row] if row in mine else from_dlpack(output[row])  # type: ignore[index]
            for row in range(count)
        ]
    if output is None:
        return drawn
    canvases = from_dlpack(output.as_tensor())[:count]
    if not rows:
        return canvases
    return canvases.index_copy(0, upload(torch.tensor(rows), canvases.device), drawn)
