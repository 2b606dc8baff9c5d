"""Decoding images with NVIDIA DALI."""

import warnings
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.utils.dlpack import from_dlpack

from dali_pipes.decode.cpu import (
    decode_whole,
    read_targets,
    render_encoded,
    render_parts,
    render_whole,
)
from dali_pipes.decode.dali import graph
from dali_pipes.decode.dali.driver import Outputs
from dali_pipes.decode.dali.feed import Feed
from dali_pipes.pipeline.augment import Augmenter
from dali_pipes.pipeline.canvases import Canvases, ViewCanvases
from dali_pipes.pipeline.fetch import Fetcher
from dali_pipes.pipeline.stages import NOTHING, Decoded, Fetched, Pending
from dali_pipes.pipeline.streams import SideStream
from dali_pipes.targets import Found
from gpu_aug.upload import upload


@dataclass(frozen=True, slots=True)
class Rendering:
    """Canvases that our threads render of rows that DALI does not.

    Attributes:
        rows: Ascending.
        canvases: Canvases of these rows.
        tasks: What is under way: each gives a row, or the only row that takes its place, and its targets.
    """

    rows: list[int]
    canvases: Canvases
    tasks: list[Future[tuple[Fetched, Found]]]

    def wait(self, decoded: Decoded) -> Decoded:
        """Return a step with what became of these rows, once they are rendered; raise what a thread raised."""
        fetched, found = decoded.fetched, list(decoded.found)
        for row, task in zip(self.rows, self.tasks, strict=True):
            one, found[row] = task.result()
            if one is not decoded.fetched:
                fetched = fetched.replaced(row, one)
        return Decoded(fetched, found)


@dataclass(frozen=True, slots=True)
class Pushed:
    """A step on its way through DALI.

    Attributes:
        fetched: The step.
        hidden: The rows that DALI does not get.
        rendering: Their canvases, where DALI renders those of the others.
    """

    fetched: Fetched
    hidden: set[int]
    rendering: Rendering | None


class DaliImageDecoder:
    """Decodes with DALI, driven by the thread that takes the steps; see Decoder.

    On the CPU DALI cuts the crops out and our threads resample them: torch's kernel takes a third of the
    time of DALI's and is torchvision's to the bit. On a GPU DALI does both, and the engine runs on a stream of its
    own, beside the training step, and our threads render what DALI must not decode while it decodes the rest.
    """

    def __init__(self, fetcher: Fetcher, augmenter: Augmenter, feed: Feed) -> None:
        self._fetcher, self._augmenter, self._feed = fetcher, augmenter, feed
        self._pool, self._recorder = augmenter.workers.pool, augmenter.workers.recorder
        self._side = SideStream(augmenter.device)
        self._under_way: deque[Pushed] = deque()
        # Crops are resampled by our threads, one step ahead of the one that is waited for.
        self.lookahead = 1 if feed.options.canvases else 2
        self.capacity = feed.options.depth + self.lookahead

    def prepare(self, fetched: Fetched) -> tuple[Fetched, set[int]]:
        """Find the rows that DALI must not decode."""
        return fetched, rows_for_cpu(fetched)

    def has_room(self) -> bool:
        """Whether DALI may get another batch."""
        return len(self._feed) < self._feed.options.depth

    def push(self, prepared: Future[tuple[Fetched, set[int]]]) -> None:
        """Start decoding a step."""
        fetched, hidden = prepared.result()
        self._feed.push(fetched, hidden)
        rendering = None
        if self._feed.options.canvases:
            rendering = self._render(
                fetched, hidden | set(np.flatnonzero(~fetched.kept()).tolist())
            )
        self._under_way.append(Pushed(fetched, hidden, rendering))

    def ready(self) -> int:
        """None is known to be finished before it is taken."""
        return 0

    def take(self) -> Pending:
        """Wait for the oldest step, and go on with it."""
        with self._recorder.measure("decode", by_others=True):
            pushed = self._under_way.popleft()
            outputs = self._feed.take(self._side.stream)
            rendering, hidden = pushed.rendering, pushed.hidden
            decoded = Decoded(pushed.fetched, [NOTHING] * len(pushed.fetched))
            if rendering is not None:
                decoded = rendering.wait(decoded)
            if outputs is None:
                decoded, hidden, outputs = self._recover(decoded, hidden)
        if rendering is not None:
            return self._go_on(decoded, hidden, outputs, rendering)
        fetched = decoded.fetched
        if outputs is None:
            return self._augmenter.spawn(fetched, partial(render_encoded, self._fetcher))
        parts = [None if row in hidden else np.asarray(cut) for row, cut in enumerate(outputs[0])]
        return self._augmenter.spawn(fetched, partial(render_parts, parts, self._fetcher))

    def close(self) -> None:
        """Discard pending batches."""
        self._feed.drain()

    def _render(self, fetched: Fetched, rows: set[int]) -> Rendering:
        """Start rendering the canvases of rows."""
        ordered = sorted(rows)
        canvases = self._augmenter.engines_of(fetched).canvases(len(ordered))
        tasks = [
            self._pool.submit(render_whole, self._fetcher, fetched, row, canvases, number)
            for number, row in enumerate(ordered)
        ]
        return Rendering(ordered, canvases, tasks)

    def _recover(self, decoded: Decoded, hidden: set[int]) -> tuple[Decoded, set[int], Outputs]:
        """Find the samples for which DALI refused the batch, and decode the others again."""
        before = fetched = decoded.fetched
        judged = [row for row in range(len(before)) if row not in hidden]
        judge = partial(_judged, self._fetcher, before)
        for row, one in zip(judged, self._pool.map(judge, judged), strict=True):
            fetched = fetched if one is before else fetched.replaced(row, one)
        decoded, hidden = replace(decoded, fetched=fetched), rows_for_cpu(fetched)
        outputs = self._feed.again(fetched, hidden, self._side.stream)
        if outputs is not None:
            return decoded, hidden, outputs
        rows = [row for row in np.flatnonzero(fetched.kept()).tolist() if row not in hidden]
        refused = self._refused(fetched, rows)
        named = ", ".join(fetched.key(row) for row in refused[:3])
        warnings.warn(
            f"DALI refused {len(refused)} of {len(rows)} samples that decode on the CPU, where they are "
            f"decoded now ({named}); DALI said: {self._feed.refusal}",
            RuntimeWarning,
            stacklevel=2,
        )
        hidden |= set(refused)
        if len(refused) < len(rows):
            outputs = self._feed.again(fetched, hidden, self._side.stream)
        return decoded, hidden, outputs

    def _refused(self, fetched: Fetched, rows: list[int]) -> list[int]:
        """Which of some rows DALI refuses, looked for by halves; all, where it takes them in no smaller number."""
        if len(rows) < 2:
            return rows
        everything = set(range(len(fetched)))
        if self._feed.again(fetched, everything) is None:
            return rows  # it refuses whatever it gets
        middle, refused = len(rows) // 2, []
        for part in (rows[:middle], rows[middle:]):
            if self._feed.again(fetched, everything - set(part)) is None:
                refused += self._refused(fetched, part)
        return refused or rows

    def _go_on(
        self, decoded: Decoded, hidden: set[int], outputs: Outputs, rendering: Rendering
    ) -> Pending:
        """Go on from DALI's canvases; hidden rows are rendered already, unless there are more of them now."""
        by_dali = np.flatnonzero(decoded.fetched.kept()).tolist()
        by_dali = [] if outputs is None else [row for row in by_dali if row not in hidden]
        decoded, bad = read_targets(self._fetcher, self._pool, decoded, by_dali)
        others = sorted(set(range(len(decoded.fetched))) - (set(by_dali) - set(bad)))
        if others != rendering.rows:
            rendering = self._render(decoded.fetched, set(others))
            decoded = rendering.wait(decoded)
        decoded = self._augmenter.workers.move_all_targets(decoded)
        finished, engines = decoded.finished(), self._augmenter.engines_of(decoded.fetched)

        def augment() -> Sequence[torch.Tensor]:
            rendered = engines.upload(rendering.canvases)
            canvases = [
                join(None if outputs is None else outputs[view], one, others, len(finished))
                for view, one in enumerate(rendered)
            ]
            return engines.augment(finished, canvases)

        ahead = self._side.run(augment)
        return Pending(lambda _: (finished, ahead.take()))


def _judged(fetcher: Fetcher, fetched: Fetched, row: int) -> Fetched:
    """The rows as they are where one of them decodes on the CPU, else the only row that takes its place."""
    return decode_whole(fetcher, fetched, row)[2]


def rows_for_cpu(fetched: Fetched) -> set[int]:
    """The rows that DALI must not decode: see `graph.suits_dali`."""
    return {
        row
        for row, data in enumerate(fetched.data)
        if data is not None and not graph.suits_dali(data)
    }


def join(
    output: Any | None, rendered: ViewCanvases, rows: Sequence[int], count: int
) -> ViewCanvases:
    """Put canvases that were rendered on the CPU among those that DALI rendered.

    Args:
        output: DALI's TensorList of canvases; None where all of them were rendered on the CPU.
        rendered: Canvases of `rows`, on DALI's device.
        rows: Ascending.
        count: How many canvases there are together.
    """
    if isinstance(rendered, list):
        mine = dict(zip(rows, rendered, strict=True))
        return [
            mine[row] if row in mine else from_dlpack(output[row])  # type: ignore[index]
            for row in range(count)
        ]
    if output is None:
        return rendered
    canvases = from_dlpack(output.as_tensor())[:count]
    if not rows:
        return canvases
    return canvases.index_copy(0, upload(torch.tensor(rows), canvases.device), rendered)
