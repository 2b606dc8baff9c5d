"""Decoding images with NVIDIA DALI."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from dali_pipes.decode.cpu import render_encoded, render_parts
from dali_pipes.decode.dali.driver import Inputs, Outputs
from dali_pipes.decode.dali.feed import Feed
from dali_pipes.decode.dali.loan import Loan
from dali_pipes.decode.dali.trust import DaliEligibility
from dali_pipes.decode.jpeg_batch import JpegRenderer
from dali_pipes.decode.remaining_rows import (
    RemainingRows,
    put_canvases,
    settle_rows,
    start_rendering,
)
from dali_pipes.stages.augment import Augmenter
from dali_pipes.stages.canvas_memory import ViewCanvases
from dali_pipes.stages.data import NO_TARGETS, Decoded, Fetched, Pending
from dali_pipes.stages.fetch import Fetcher
from dali_pipes.stages.pipeline import Decoder


@dataclass(frozen=True, slots=True)
class Prepared:
    """A step as the threads that read it leave it.

    Attributes:
        fetched: The step.
        hidden: The rows that DALI does not get.
        inputs: The inputs of DALI's pipeline; see `Feed.inputs`.
        remaining: The rows that DALI does not get, where it renders the canvases of the others; else None.
    """

    fetched: Fetched
    hidden: set[int]
    inputs: Inputs
    remaining: RemainingRows | None


class DaliImageDecoder(Decoder):
    """Decodes with DALI; see Decoder.

    On the CPU DALI cuts the crops out and our threads resample them: torch's kernel takes a third of the
    time of DALI's and is torchvision's to the bit. On a GPU DALI does both, and the engine runs on a stream of its
    own, in parallel to the training step, and our threads render the rows that DALI must not decode.

    Args:
        fetcher: Deals with bad samples.
        augmenter: Goes on from canvases, or from decoded parts on the CPU.
        feed: DALI's pipeline.
        trust: Says which samples DALI gets.
        read_ahead: How many steps threads read and prepare besides those that are in DALI.
    """

    def __init__(
        self,
        fetcher: Fetcher,
        augmenter: Augmenter,
        feed: Feed,
        trust: DaliEligibility,
        read_ahead: int,
    ) -> None:
        self._fetcher, self._augmenter, self._feed = fetcher, augmenter, feed
        self._trust, self._side = trust, augmenter.side
        self._pool, self._recorder = augmenter.workers.pool, augmenter.workers.recorder
        self.depth = feed.options.depth
        self.capacity = self.depth + self.lookahead + read_ahead

    def prepare(self, fetched: Fetched) -> Prepared:
        """Find the rows that DALI must not decode, start rendering them, and make DALI's inputs."""
        with self._recorder.measure("header", work=fetched.work):
            hidden = self._trust.rows_for_cpu(fetched, self._pool)
        remaining = None
        if self._feed.options.canvases:
            rows = hidden.union(np.flatnonzero(~fetched.has_sample).tolist())
            remaining = start_rendering(self._fetcher, self._augmenter, fetched, rows)
        return Prepared(fetched, hidden, self._feed.inputs(fetched, hidden), remaining)

    def start(self, prepared: Prepared) -> None:
        """Hand a step to DALI."""
        self._feed.push(prepared.inputs)

    def finish(self, prepared: Prepared) -> Pending:
        """Take a step from DALI, or decode it again where DALI refused it, and augment it."""
        with self._recorder.measure("decode", by_others=True):
            outputs = self._feed.take(self._side.stream)
            fetched, hidden = prepared.fetched, prepared.hidden
            decoded = Decoded(fetched, [NO_TARGETS] * len(fetched))
            if prepared.remaining is not None:
                decoded = prepared.remaining.wait(decoded)
            if outputs is None:
                hidden, outputs = self._recover(decoded.fetched, hidden)
        if prepared.remaining is not None:
            return self._augment(decoded, hidden, outputs, prepared.remaining)
        if outputs is None:
            renderer = JpegRenderer(fetched)
            return self._augmenter.spawn(fetched, partial(render_encoded, self._fetcher, renderer))
        parts = [None if row in hidden else np.asarray(cut) for row, cut in enumerate(outputs[0])]
        return self._augmenter.spawn(fetched, partial(render_parts, parts, self._fetcher))

    def close(self) -> None:
        """Drop the steps that were started."""
        self._feed.drain()
        self._side.close()

    def _recover(self, fetched: Fetched, hidden: set[int]) -> tuple[set[int], Outputs]:
        """Find the rows for which DALI refused a batch, hide them, and decode the others again."""
        rows = [row for row in np.flatnonzero(fetched.has_sample).tolist() if row not in hidden]
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
        """Return the rows DALI refuses alone, by bisection; in later epochs the CPU decodes these."""
        if len(rows) == 1:
            self._trust.refuse(int(fetched.indices[rows[0]]))
            return rows
        middle, refused = len(rows) // 2, []
        for part in (rows[:middle], rows[middle:]):
            if self._feed.again(fetched, everything - set(part)) is None:
                refused += self._refused(fetched, part, everything)
        return refused

    def _augment(
        self, decoded: Decoded, hidden: set[int], outputs: Outputs, remaining: RemainingRows
    ) -> Pending:
        """Augment DALI's canvases; hidden rows are rendered already, unless there are more of them now."""
        is_by_dali = decoded.fetched.has_sample & (outputs is not None)
        is_by_dali[list(hidden)] = False
        decoded, remaining = settle_rows(
            self._fetcher, self._augmenter, remaining, decoded, is_by_dali
        )
        engines, rows = self._augmenter.engines_of(decoded.fetched), remaining.rows

        def canvases() -> Sequence[ViewCanvases]:
            rendered = engines.upload(remaining.canvases) if rows else []
            if outputs is None:
                return rendered
            # The decoded images are behind the canvases; see `Feed.take`.
            loan = Loan(self._side, outputs[len(engines.views) :])
            made: list[ViewCanvases] = []
            for view, output in zip(engines.views, outputs, strict=False):
                if view.recipe.decode_size is None:
                    made.append([loan.tensor(output[row]) for row in range(len(is_by_dali))])
                else:
                    made.append(loan.tensor(output.as_tensor())[: len(is_by_dali)])
                if rows and isinstance(made[-1], torch.Tensor):
                    made[-1] = made[-1].clone()  # DALI's own memory is only read
            for view_canvases, of_rows in zip(made, rendered, strict=False):
                put_canvases(view_canvases, of_rows, rows)
            return made

        return self._augmenter.launch(decoded, canvases)
