"""Turning plans into finished batches of clips, whose frames DALI decodes."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.utils.dlpack import from_dlpack

from dali_pipes.pipeline.augment import Canvases, Finisher, Pending, Sheets
from dali_pipes.pipeline.fetch import Work, Workshop
from dali_pipes.pipeline.streams import SideStream
from dali_pipes.schedule import Plan
from dali_pipes.targets import upload
from dali_pipes.video.canvases import draw_canvases
from dali_pipes.video.draw import ClipDrawer
from dali_pipes.video.excerpt import Excerpt, make_excerpt
from dali_pipes.video.feed import ClipFeed
from readers.video import VideoInfo

# Decoded frames that DALI holds at once for each of its pushes. A batch that has more is pushed in parts.
_PART_BYTES = 1 << 30

Drawn = dict[int, tuple[torch.Tensor, ...]]
"""Row -> per view the canvases of its frames, uint8 [T, height, width, 3]."""


@dataclass(slots=True)
class Prepared:
    """A batch on its way through DALI.

    Attributes:
        work: The batch.
        excerpts: Excerpts by row; rows without one are decoded on the CPU.
        parts: The rows that are pushed together.
        drawn: What is decoded and drawn.
    """

    work: Work
    excerpts: dict[int, Excerpt]
    parts: list[list[int]]
    drawn: Drawn = field(default_factory=dict)


class DaliClipProducer:
    """Decodes clips with DALI, driven by the thread that takes the batches.

    DALI gets of each video the packets that its clip needs, under numbers of ours. Canvases are drawn by
    torch on the device where the frames lie, and the engine runs on a stream of its own. Clips that DALI is
    not trusted with, or refuses, are decoded on the CPU, which has the last word on what is a bad sample.
    """

    def __init__(self, workshop: Workshop, finisher: Finisher, feed: ClipFeed) -> None:
        self._workshop = workshop
        self._finisher = finisher
        self._feed = feed
        self._side = SideStream(finisher.device)
        self._preparing: deque[Future[Prepared]] = deque()
        self._decoding: deque[Prepared] = deque()
        self._unpushed: deque[list[Excerpt]] = deque()
        self.capacity = feed.options.depth + 1

    def submit(self, plan: Plan) -> None:
        """Start on a batch; returns at once."""
        self._preparing.append(self._finisher.pool.submit(self._prepare, plan))

    def take(self) -> tuple[Work, tuple[torch.Tensor, ...]]:
        """Wait for the oldest batch: its work and per view the images of all its rows, [images, 3, H, W]."""
        pending = self._collect()
        return pending.work, pending.wait()

    def close(self) -> None:
        """Drop what is under way and end the threads."""
        self._finisher.close()
        self._feed.drain()

    def _prepare(self, plan: Plan) -> Prepared:
        work = self._workshop.prepare(plan)
        excerpts = {row: found for row in range(len(work)) if (found := self._excerpt(work, row))}
        return Prepared(work, excerpts, list(divide(excerpts)))

    def _excerpt(self, work: Work, row: int) -> Excerpt | None:
        clips, data = self._workshop.clips, work.data[row]
        if clips is None or data is None:
            return None
        info = clips.info(int(clips.videos(work.indices[row : row + 1])[0]))
        if not isinstance(info, VideoInfo) or self._feed.refusals.is_hopeless(info):
            return None
        return make_excerpt(data, info, work.frames[row], self._feed.options.backend)

    def _push(self) -> None:
        """Keep DALI busy, beginning with the oldest batch."""
        while len(self._feed) < self._feed.options.depth:
            if self._unpushed:
                self._feed.push(self._unpushed.popleft())
            elif self._preparing:
                prepared = self._preparing.popleft().result()
                self._decoding.append(prepared)
                self._unpushed += [
                    [prepared.excerpts[row] for row in rows] for rows in prepared.parts
                ]
            else:
                return

    def _collect(self) -> Pending:
        self._push()
        prepared = self._decoding.popleft()
        for rows in prepared.parts:
            with self._finisher.timings.measure("decode"):
                outputs = self._feed.take(self._side.stream)
            self._push()
            if outputs is not None:
                self._draw(prepared, rows, outputs)
            else:
                self._take_apart(prepared, rows)
        return self._finish(prepared)

    def _take_apart(self, prepared: Prepared, rows: Sequence[int]) -> None:
        """Decode one by one what DALI refused together; what it refuses again is left to the CPU."""
        for row in rows:
            excerpt = prepared.excerpts[row]
            with self._finisher.timings.measure("decode"):
                frames = self._feed.take_single(excerpt, self._side.stream)
            decoded = frames is not None
            self._feed.refusals.note(excerpt.info, decoded=decoded, said=self._feed.refusal)
            if frames is not None:
                self._draw(prepared, [row], [frames])

    def _draw(self, prepared: Prepared, rows: Sequence[int], decoded: Sequence[Any]) -> None:
        """Draw canvases and let go of the frames, on the stream that DALI's outputs are ready for."""
        draws = [
            partial(_draw_views, prepared.work, row, prepared.excerpts[row], frames)
            for row, frames in zip(rows, decoded, strict=True)
        ]
        with self._finisher.timings.measure("decode"):
            if self._side.stream is None:
                drawn = list(self._finisher.pool.map(_call, draws))
            else:
                drawn = [self._side.run(draw).tensors for draw in draws]
        prepared.drawn.update(zip(rows, drawn, strict=True))

    def _finish(self, prepared: Prepared) -> Pending:
        """Draw the other rows on the CPU, and go on to the engines."""
        work, finisher = prepared.work, self._finisher
        others = [row for row in range(len(work)) if row not in prepared.drawn]
        sheets = Sheets(work, others, finisher.views, pinned=finisher.device.type == "cuda")
        drawer = ClipDrawer(self._workshop, work, others)
        with finisher.timings.measure("decode"):
            list(
                finisher.pool.map(
                    lambda place: drawer(sheets, place, place + 1), range(len(others))
                )
            )

        def finish() -> tuple[torch.Tensor, ...]:
            uploaded = finisher.upload(sheets)
            canvases = [
                join(prepared.drawn, view, canvases, others, len(work))
                for view, canvases in enumerate(uploaded)
            ]
            return finisher.augment(work, canvases)

        return Pending(work, [], self._side.run(finish).take)


def divide(excerpts: dict[int, Excerpt]) -> Iterator[list[int]]:
    """Divide rows into parts whose decoded frames fit into the memory for one push, one row at least."""
    part: list[int] = []
    size_bytes = 0
    for row, excerpt in excerpts.items():
        if part and size_bytes + excerpt.size_bytes > _PART_BYTES:
            yield part
            part, size_bytes = [], 0
        part.append(row)
        size_bytes += excerpt.size_bytes
    if part:
        yield part


def join(drawn: Drawn, view: int, others: Canvases, rows: Sequence[int], count: int) -> Canvases:
    """Put the canvases of all rows into their order.

    Args:
        drawn: What DALI decoded.
        view: Which view.
        others: The canvases of `rows`, on the same device, as many for each row.
        rows: Ascending; every row is either here or there.
        count: How many rows there are together.
    """
    times = len(others) // len(rows) if rows else 0
    places = {row: place * times for place, row in enumerate(rows)}
    clips = [
        others[places[row] : places[row] + times] if row in places else drawn[row][view]
        for row in range(count)
    ]
    if isinstance(others, list):
        return [canvas for clip in clips for canvas in clip]
    return torch.cat([others[:0], *clips])  # type: ignore[list-item]


def _call(draw: Callable[[], tuple[torch.Tensor, ...]]) -> tuple[torch.Tensor, ...]:
    return draw()


def _draw_views(work: Work, row: int, excerpt: Excerpt, decoded: Any) -> tuple[torch.Tensor, ...]:
    frames = from_dlpack(decoded)  # here, since DALI goes by the stream that is the current one
    drawn = [draw_canvases(frames, excerpt.info, draws.windows, row) for draws in work.draws]
    if not np.array_equal(excerpt.picks, np.arange(len(frames))):
        picks = upload(torch.from_numpy(excerpt.picks), frames.device)
        drawn = [canvases.index_select(0, picks) for canvases in drawn]
    return tuple(drawn)
