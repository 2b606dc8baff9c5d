"""Decoding images with NVIDIA DALI."""

import warnings
from collections import deque
from collections.abc import Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from dali_pipes.decode.cpu import (
    read_targets,
    render_encoded,
    render_parts,
    start_rendering,
)
from dali_pipes.decode.dali.driver import Inputs, Outputs
from dali_pipes.decode.dali.feed import Feed
from dali_pipes.decode.dali.loan import Loan
from dali_pipes.decode.dali.trust import Trust
from dali_pipes.decode.jpeg_batch import JpegRenderer
from dali_pipes.stages.augment import Augmenter
from dali_pipes.stages.canvases import ViewCanvases
from dali_pipes.stages.data import NOTHING, Decoded, Fetched, Pending
from dali_pipes.stages.fetch import Fetcher
from dali_pipes.stages.rendering import Rendering
from gpu_aug.upload import upload


@dataclass(frozen=True, slots=True)
class Prepared:
    """A step as the threads that read it leave it.

    Attributes:
        fetched: The step.
        hidden: The rows that DALI does not get.
        inputs: What it gets; see `Feed.inputs`.
        rendering: Canvases of the rows that DALI does not get, where it renders those of the others.
    """

    fetched: Fetched
    hidden: set[int]
    inputs: Inputs
    rendering: Rendering | None


class DaliImageDecoder:
    """Decodes with DALI, driven by the thread that takes the steps; see Decoder.

    On the CPU DALI cuts the crops out and our threads resample them: torch's kernel takes a third of the
    time of DALI's and is torchvision's to the bit. On a GPU DALI does both, and the engine runs on a stream of its
    own, beside the training step, and our threads render what DALI must not decode while it decodes the rest.
    """

    # Our threads, or the engine on a GPU, are one step ahead of the one that is waited for.
    lookahead = 2

    def __init__(
        self, fetcher: Fetcher, augmenter: Augmenter, feed: Feed, trust: Trust, read_ahead: int
    ) -> None:
        self._fetcher, self._augmenter, self._feed = fetcher, augmenter, feed
        self._trust = trust
        self._pool, self._recorder = augmenter.workers.pool, augmenter.workers.recorder
        self._side = augmenter.side
        self._under_way: deque[Prepared] = deque()
        self.capacity = feed.options.depth + self.lookahead + read_ahead

    def prepare(self, fetched: Fetched) -> Prepared:
        """Find the rows that DALI must not decode, start rendering them, and make what DALI is fed with."""
        with self._recorder.measure("header", work=fetched.work):
            hidden = self._trust.hidden(fetched, self._pool)
        rendering = None
        if self._feed.options.canvases:
            lost = np.flatnonzero(~fetched.kept()).tolist()
            rendering = self._render(fetched, hidden.union(lost))
        inputs = self._feed.inputs(fetched, hidden)
        return Prepared(fetched, hidden, inputs, rendering)

    def has_room(self) -> bool:
        """Whether DALI may get another batch."""
        return len(self._feed) < self._feed.options.depth

    def push(self, prepared: Future[Prepared]) -> None:
        """Start decoding a step."""
        one = prepared.result()
        self._feed.push(one.inputs)
        self._under_way.append(one)

    def ready(self) -> int:
        """None is known to be finished before it is taken."""
        return 0

    def take(self) -> Pending:
        """Wait for the oldest step, and go on with it."""
        spent = [self._under_way.popleft()]
        pending = self._take(spent[0])
        # The files of a step are many pieces of memory: giving them back takes as long as all else here.
        self._pool.submit(spent.clear)
        return pending

    def close(self) -> None:
        """Discard pending batches."""
        self._feed.drain()
        self._side.close()

    def _take(self, prepared: Prepared) -> Pending:
        """Wait for a step, and go on with it."""
        with self._recorder.measure("decode", by_others=True):
            outputs = self._feed.take(self._side.stream)
            fetched, hidden, rendering = prepared.fetched, prepared.hidden, prepared.rendering
            decoded = Decoded(fetched, [NOTHING] * len(fetched))
            if rendering is not None:
                decoded = rendering.wait(decoded)
            if outputs is None:
                hidden, outputs = self._recover(decoded.fetched, hidden)
        if rendering is not None:
            return self._go_on(decoded, hidden, outputs, rendering)
        fetched = decoded.fetched
        if outputs is None:
            return self._augmenter.spawn(
                fetched, partial(render_encoded, self._fetcher, JpegRenderer(fetched))
            )
        parts = [None if row in hidden else np.asarray(cut) for row, cut in enumerate(outputs[0])]
        return self._augmenter.spawn(fetched, partial(render_parts, parts, self._fetcher))

    def _render(self, fetched: Fetched, rows: Collection[int]) -> Rendering:
        return start_rendering(self._fetcher, self._augmenter, fetched, rows)

    def _recover(self, fetched: Fetched, hidden: set[int]) -> tuple[set[int], Outputs]:
        """Find the rows for which DALI refused a batch, hide them, and decode the others again."""
        rows = [row for row in np.flatnonzero(fetched.kept()).tolist() if row not in hidden]
        everything = set(range(len(fetched)))
        outputs = None
        refused = rows
        if self._feed.again(fetched, everything) is not None:  # else it refuses whatever it gets
            refused = self._refused(fetched, rows, everything)
            hidden = hidden | set(refused)
            if refused != rows:
                outputs = self._feed.again(fetched, hidden, self._side.stream)
        refused = refused if outputs is not None else rows
        what = f"a batch of {len(rows)} samples, and took it when it was asked again"
        if refused:
            named = ", ".join(fetched.key(row) for row in refused[:3])
            what = (
                f"{len(refused)} of {len(rows)} samples whose files are sound, and which are decoded on the CPU "
                f"({named})"
            )
        text = f"DALI refused {what}; DALI said: {self._feed.refusal}"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
        return hidden, outputs

    def _refused(self, fetched: Fetched, rows: list[int], everything: set[int]) -> list[int]:
        """Which of some refused rows DALI refuses by themselves, looked for by halves; later epochs hide these."""
        if len(rows) == 1:
            self._trust.refuse(int(fetched.indices[rows[0]]))
            return rows
        middle, refused = len(rows) // 2, []
        for part in (rows[:middle], rows[middle:]):
            if self._feed.again(fetched, everything - set(part)) is None:
                refused += self._refused(fetched, part, everything)
        return refused

    def _go_on(
        self, decoded: Decoded, hidden: set[int], outputs: Outputs, rendering: Rendering
    ) -> Pending:
        """Go on from DALI's canvases; hidden rows are rendered already, unless there are more of them now."""
        by_dali = decoded.fetched.kept() & (outputs is not None)
        by_dali[list(hidden)] = False
        decoded, bad = read_targets(
            self._fetcher, self._pool, decoded, np.flatnonzero(by_dali).tolist()
        )
        by_dali[bad] = False
        others = np.flatnonzero(~by_dali).tolist()
        if others != rendering.rows:
            rendering = self._render(decoded.fetched, others)
            decoded = rendering.wait(decoded)
        decoded = self._augmenter.workers.move_all_targets(decoded)
        finished, engines = decoded.finished(), self._augmenter.engines_of(decoded.fetched)

        def augment() -> Sequence[torch.Tensor]:
            rendered = list(rendering.canvases.views)
            if others:
                rendered = engines.upload(rendering.canvases)
            if outputs is None:
                return engines.augment(finished, rendered)
            # The decoded images are behind the canvases; see `Feed.take`.
            loan = Loan(self._side, outputs[len(engines.views) :])
            canvases = [
                join(
                    loan,
                    outputs[number],
                    rendered[number] if others else None,
                    others,
                    len(finished),
                    view.recipe.decode_size,
                )
                for number, view in enumerate(engines.views)
            ]
            return engines.augment(finished, canvases)

        ahead = self._side.run(augment)
        return Pending(lambda _: (finished, ahead))


def join(
    loan: Loan,
    output: Any,
    rendered: ViewCanvases | None,
    rows: Sequence[int],
    count: int,
    size: tuple[int, int] | None,
) -> ViewCanvases:
    """Put canvases that were rendered on the CPU among those that DALI rendered.

    Args:
        loan: Lends DALI's output.
        output: DALI's TensorList of canvases.
        rendered: Canvases of `rows`, on DALI's device; None for no rows.
        rows: Ascending.
        count: Number of canvases of the result.
        size: Height and width of all canvases; None where they differ.
    """
    if size is None:
        mine = dict(zip(rows, rendered or (), strict=True))
        return [mine[row] if row in mine else loan.tensor(output[row]) for row in range(count)]
    canvases = loan.tensor(output.as_tensor())[:count]
    if not isinstance(rendered, torch.Tensor):
        return canvases
    return canvases.index_copy(0, upload(torch.tensor(rows), canvases.device), rendered)
