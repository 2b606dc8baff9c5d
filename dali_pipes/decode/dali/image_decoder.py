"""The decode stage of images with NVIDIA DALI."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from dali_pipes.decode.cpu import render_encoded, render_parts
from dali_pipes.decode.dali.base import DecoderByDali
from dali_pipes.decode.dali.driver import Inputs, Outputs
from dali_pipes.decode.dali.feed import Feed
from dali_pipes.decode.dali.loan import Loan
from dali_pipes.decode.dali.trust import DaliEligibility
from dali_pipes.decode.jpeg_batch import JpegRenderer
from dali_pipes.decode.remaining_rows import (
    RemainingRows,
    settle_rows,
    start_rendering,
)
from dali_pipes.stages.augment import Augmenter
from dali_pipes.stages.canvas_memory import ViewCanvases
from dali_pipes.stages.data import NO_TARGETS, Decoded, Fetched, Pending
from dali_pipes.stages.fetch import Fetcher


@dataclass(frozen=True, slots=True)
class Prepared:
    """A step after `DaliImageDecoder.prepare`.

    Attributes:
        fetched: The step.
        hidden: The rows that DALI does not get.
        inputs: The inputs of DALI's pipeline, see `Feed.inputs`; empty for an empty step, because DALI does not recover
            from an empty batch.
        remaining: The rows that our threads render, if DALI renders the canvases of all other rows; None if it only
            decodes.
    """

    fetched: Fetched
    hidden: set[int]
    inputs: Inputs
    remaining: RemainingRows | None


class DaliImageDecoder(DecoderByDali):
    """Decodes images with DALI; see DecoderByDali.

    On the CPU, DALI decodes only the crops and our threads resize them: torch's kernel takes a third of the time of
    DALI's, and its pixels are exactly torchvision's. On a GPU, DALI does both; augmentation runs on a separate stream,
    in parallel with the training step, and our threads render the rows that DALI must not decode.

    Args:
        fetcher: Replaces bad samples.
        augmenter: Augments the canvases, or on the CPU renders and augments them.
        feed: DALI's pipeline.
        trust: Decides which samples DALI gets.
        read_ahead: Count of steps that threads read and prepare besides the steps that are in DALI.
    """

    def __init__(
        self,
        fetcher: Fetcher,
        augmenter: Augmenter,
        feed: Feed,
        trust: DaliEligibility,
        read_ahead: int,
    ) -> None:
        super().__init__(fetcher, augmenter, feed, read_ahead)
        self._feed, self._trust = feed, trust

    def prepare(self, fetched: Fetched) -> Prepared:
        """Find the rows that DALI must not decode, start rendering them, and make DALI's inputs."""
        with self._recorder.measure("header", work=fetched.work):
            hidden = self._trust.rows_for_cpu(fetched, self._augmenter.workers.pool)
        remaining = None
        if self._feed.options.canvases:
            rows = hidden.union(np.flatnonzero(~fetched.has_sample).tolist())
            remaining = start_rendering(self._fetcher, self._augmenter, fetched, rows)
        inputs = self._feed.inputs(fetched, hidden) if len(fetched) else {}
        return Prepared(fetched, hidden, inputs, remaining)

    def start(self, prepared: Prepared) -> None:
        """Push a step into DALI."""
        if prepared.inputs:
            self._feed.push(prepared.inputs)

    def finish(self, prepared: Prepared) -> Pending:
        """Take a step from DALI, decode it again if DALI refused it, and start augmenting it."""
        with self._recorder.measure("decode", by_others=True):
            outputs = self._feed.take(self._side.stream) if prepared.inputs else None
            fetched, hidden = prepared.fetched, prepared.hidden
            decoded = Decoded(fetched, [NO_TARGETS] * len(fetched))
            if prepared.remaining is not None:
                decoded = prepared.remaining.wait(decoded)
            if outputs is None and prepared.inputs:
                hidden, outputs = self._recover(decoded.fetched, hidden)
        if prepared.remaining is not None:
            return self._augment(decoded, hidden, outputs, prepared.remaining)
        if outputs is None:
            renderer = JpegRenderer(fetched)
            return self._augmenter.spawn(fetched, partial(render_encoded, self._fetcher, renderer))
        parts = [None if row in hidden else np.asarray(cut) for row, cut in enumerate(outputs[0])]
        return self._augmenter.spawn(fetched, partial(render_parts, parts, self._fetcher))

    def _recover(self, fetched: Fetched, hidden: set[int]) -> tuple[set[int], Outputs]:
        """Find the rows because of which DALI refused a batch, and decode the other rows again.

        Returns:
            The hidden rows, which now include the refused ones, and the outputs; None if DALI refuses all rows.
        """
        rows = [row for row in np.flatnonzero(fetched.has_sample).tolist() if row not in hidden]
        refused, outputs = rows, None
        # If DALI refuses even a batch without samples, it refuses all of them.
        if self._again(fetched, set(range(len(fetched)))) is not None:
            refused = [
                row for row in rows if self._again(fetched.rows(row, row + 1), set()) is None
            ]
            self._trust.refuse(fetched.indices[refused])
            hidden = hidden | set(refused)
            outputs = self._again(fetched, hidden)
        named = ", ".join(fetched.key(row) for row in refused[:3])
        text = (
            f"DALI refused a batch of {len(rows)} samples whose files are sound. Sample by sample it refused {len(refused)} of "
            f"them, which are decoded on the CPU ({named}). error of DALI: {self._feed.refusal}"
        )
        warnings.warn(text, RuntimeWarning, stacklevel=2)
        return hidden, outputs

    def _again(self, fetched: Fetched, hidden: set[int]) -> Outputs:
        """Decode all rows that are not hidden at once and return the outputs; None if DALI refuses them."""
        return self._feed.run_now(self._feed.inputs(fetched, hidden), self._side.stream)

    def _augment(
        self, decoded: Decoded, hidden: set[int], outputs: Outputs, remaining: RemainingRows
    ) -> Pending:
        """Start augmenting DALI's canvases.

        Rows that were hidden from the start are rendered already; those that `_recover` has hidden are rendered here.
        """
        is_by_dali = decoded.fetched.has_sample & (outputs is not None)
        is_by_dali[list(hidden)] = False
        decoded, remaining = settle_rows(
            self._fetcher, self._augmenter, remaining, decoded, is_by_dali
        )
        engines = self._augmenter.engines_of(decoded.fetched)

        def canvases() -> Sequence[ViewCanvases]:
            if outputs is None:  # an empty step, or one that DALI refuses
                return engines.upload(remaining.canvases)
            # The decoded images follow the canvases in the outputs; see `Feed`.
            loan = Loan(self._side, outputs[len(engines.views) :])
            made: list[ViewCanvases] = []
            for view, output in zip(engines.views, outputs, strict=False):
                if view.recipe.decode_size is None:
                    made.append([loan.tensor(output[row]) for row in range(len(is_by_dali))])
                else:
                    made.append(loan.tensor(output.as_tensor())[: len(is_by_dali)])
                if remaining.rows and isinstance(made[-1], torch.Tensor):
                    made[-1] = made[-1].clone()  # a copy: memory of DALI must not be written
            remaining.put_into(made, engines)
            return made

        return self._augmenter.launch(decoded, canvases)
