"""The steps of an epoch of a stream, and the samples of a lane that each step reads."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import count
from typing import Any

import numpy as np

from dali_pipes.arguments.process_rank import Process
from dali_pipes.errors import LoaderError, StateMismatchError
from dali_pipes.steps.schedule import (
    BucketSteps,
    Consumed,
    EpochSteps,
    LastBatch,
    Plan,
    Steps,
    total,
)
from dali_pipes.steps.streams.lane import Given, Mark
from dali_pipes.steps.streams.order import UNKNOWN
from dali_pipes.steps.variants import Variants
from readers import part
from readers.datasets.stream import Divide, Stream

# Indices of the loops of this process, by which readers tell steps of different loops apart.
_LOOPS = count()


@dataclass(frozen=True, slots=True)
class StreamPlan(Plan):
    """A step of a stream.

    Attributes:
        loop: Index of the step's loop; the steps of a loop are read in order.
        lane: Index of the lane (the sequence of samples that one reader yields) from which the step is read.
        num_lanes: Count of lanes.
        first: Position in the lane at which the step begins.
        count: Count of samples of this step over all ranks that share the lane.
        skip: How many of these samples come before this rank's first sample.
        start: Count of the epoch's positions that all ranks together had received before this step.
        mark: Before reading: for the first step of a loop, the mark from which to read the lane. After reading: the
            mark of the next step. None stands for the start of the epoch.
        over: Whether the stream ended before this step, which then has no samples and no batch.
        ends: Whether this is the last step of its epoch, as far as that is known.
        full_only: Whether a step with fewer than `count` samples is dropped and sets `over`.
        reserve: The samples of the step, then samples near it; they may replace bad samples. Not sent to other
            processes.
    """

    loop: int = 0
    lane: int = 0
    num_lanes: int = 1
    first: int = 0
    count: int = 0
    skip: int = 0
    start: int = 0
    mark: Mark | None = None
    over: bool = False
    ends: bool = False
    full_only: bool = True
    reserve: tuple[Given, ...] = field(default=(), compare=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle everything except `reserve`, the last field."""
        return StreamPlan, tuple(getattr(self, own.name) for own in fields(self)[:-1])

    def as_read(self, num_read: int, mark: Mark) -> "StreamPlan":
        """Return the plan with the actual number of samples, which is smaller if the stream ended within the step."""
        if num_read == self.count:
            return replace(self, mark=mark)
        over = num_read == 0 or self.full_only
        own = 0 if over else min(max(num_read - self.skip, 0), len(self.positions))
        return replace(
            self,
            positions=self.positions[:own],
            rows=np.arange(own),
            valid=self.valid[:own],
            consumed=self.start if over else self.start + num_read,
            mark=mark,
            over=over,
        )


@dataclass(frozen=True, slots=True)
class StreamSteps(EpochSteps):
    """The steps of an epoch of a stream. Every rank has the same number of steps.

    If ranks divide the shards, each rank reads its own lane (sequence of samples) and takes the next samples of it. If
    they divide the samples, all ranks read one lane, and each takes its part of the next `global_batch` samples. The
    length is `UNKNOWN` if an epoch ends with the stream.

    Attributes:
        divide: Whether ranks divide shards or samples.
        saved: Position and mark that the next loader state stores; set by `record_position` and `load`.
    """

    variants: Variants
    divide: Divide
    saved: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def largest(self) -> int:
        """Upper bound of the positions in a plan: the batch size, because it is a multiple of the groups."""
        return self.batch_size

    @property
    def left_out(self) -> int:
        """Number of samples that an epoch leaves out, as far as that is known."""
        is_known = self.length != UNKNOWN and self.last_batch == "drop"
        return self.length % self.global_batch if is_known else 0

    def num_steps(self, consumed: Consumed = 0) -> int:
        """Return the number of remaining steps; a huge number if the length is unknown."""
        left = self.length - total(consumed)
        if self.last_batch == "drop":
            return left // self.global_batch
        return -(-left // self.global_batch)

    def plans(self, epoch: int, consumed: Consumed = 0) -> Iterator[Plan]:
        """Yield the remaining steps of an epoch, in order; without end if its length is unknown."""
        loop, num_steps, had = next(_LOOPS), self.num_steps(consumed), total(consumed)
        mark = self._mark(epoch, had)
        for step in range(num_steps):
            start = had + step * self.global_batch
            stop = min(start + self.global_batch, self.length)
            low, high = part(start, stop, self.rank, self.world_size)
            own = np.arange(low, high, dtype=np.int64)
            last = step == num_steps - 1
            share = self.divide == "samples"
            yield StreamPlan(
                epoch,
                step,
                own,
                np.arange(len(own)),
                np.ones(len(own), bool),
                # The samples that "drop" leaves out are consumed with the last step, so that the epoch is over.
                self.length if last else stop,
                self.rank,
                self.variants.at(epoch),
                loop=loop,
                lane=0 if share else self.rank,
                num_lanes=1 if share else self.world_size,
                first=start if share else start // self.world_size,
                count=stop - start if share else len(own),
                skip=low - start if share else 0,
                start=start,
                mark=mark if step == 0 else None,
                ends=last,
                full_only=self.last_batch == "drop",
            )

    def record_position(self, plan: Plan) -> None:
        """Record the position after a step that the user received, or that was found to be after the end."""
        if not isinstance(plan, StreamPlan):
            return
        if plan.over:  # the position after the previous step is kept
            self.saved.update(epoch=plan.epoch, over=True)
        else:
            self.saved.update(epoch=plan.epoch, consumed=plan.consumed, mark=plan.mark, over=False)

    def state(self, epoch: int, consumed: int) -> dict[str, Any]:
        """Return the entry `stream` of a loader state."""
        mark = self._mark(epoch, consumed)
        return {
            "divide": self.divide,
            "rank": self.rank,
            "world_size": self.world_size,
            "at": [epoch, consumed],
            "mark": None if mark is None else list(mark),
            "over": self.saved.get("epoch") == epoch and self.saved.get("over") is True,
        }

    def load(self, state: Mapping[str, Any]) -> bool:
        """Load the entry `stream` of a loader state; return whether its epoch was complete.

        Raises:
            StateMismatchError: The entry is damaged, or comes from another number of ranks, which divide the shards
            differently.
        """
        stream = state.get("stream")
        self.saved.clear()
        if not isinstance(stream, Mapping):
            if self.divide == "shards" and self.world_size > 1:
                raise StateMismatchError(
                    "this state has no entry 'stream', so the number of ranks that divided the shards is unknown; give "
                    "what loader.state_dict() returned"
                )
            return False
        there = stream.get("world_size")
        if self.divide == "shards" and there != self.world_size:
            raise StateMismatchError(
                f"the state was taken on {there} ranks and this run has {self.world_size}: a stream whose shards are "
                "divided among ranks gives each number of ranks another order; resume on as many, begin the next epoch "
                'with loader.set_epoch, or open streams with divide="samples", which resume on any number'
            )
        if stream.get("at") != [state["epoch"], state["consumed"]]:
            return False  # the state was moved to another position, for which the mark is wrong
        mark = stream.get("mark")
        is_own = self.divide == "samples" or stream.get("rank") == self.rank
        if is_own and mark is not None:
            self.saved.update(
                epoch=state["epoch"], consumed=state["consumed"], mark=_as_mark(mark), over=False
            )
        return bool(stream.get("over"))

    def explain(self, name: str) -> Iterator[str]:
        """Yield lines for `Loader.explain` that state what is guaranteed for this stream, and what is not.

        Args:
            name: Name of the stream's order, for the lines.
        """
        step = f"{self.global_batch} samples a step, rank {self.rank} of {self.world_size}"
        end = f"last batch: {self.last_batch}"
        if self.length == UNKNOWN:
            yield f"order: {name}; an epoch ends with the stream, {step}, {end}"
        else:
            yield f"order: {name}; {self.num_steps()} steps of an epoch of {self.length} samples, {step}, {end}"
        if self.world_size == 1:
            yield "stream: read by this process alone; each sample once, and another batch size changes no order"
        elif self.divide == "samples":
            yield (
                "stream: every rank reads all of it and takes its part of each step; the same samples and order on any "
                "number of ranks, on which a state resumes"
            )
        else:
            yield (
                "stream: ranks divide the shards; a rank that finishes early begins its shards again, another one leaves "
                "the rest out; each sample comes once if all ranks have equally many; a state resumes on the same number "
                "of ranks only, fast with its rank's own state"
            )

    def _mark(self, epoch: int, consumed: int) -> Mark | None:
        saved = self.saved
        here = saved.get("epoch") == epoch and saved.get("consumed") == consumed
        mark: Mark | None = saved.get("mark") if here else None
        return mark


AnySteps = Steps | BucketSteps | StreamSteps


def _as_mark(mark: Any) -> Mark:
    fits = isinstance(mark, list | tuple) and len(mark) == len(Mark._fields)
    if not fits or not all(type(number) is int and number >= 0 for number in mark):
        raise StateMismatchError(
            "the state's mark of the stream is damaged; load a copy of the state without the entry 'stream', or start anew"
        )
    return Mark(*mark)


def stream_steps(
    stream: Stream, batch_size: int, last_batch: LastBatch, variants: Variants, process: Process
) -> StreamSteps:
    """Return the steps of an epoch of a stream.

    Raises:
        LoaderError: Ranks could have different numbers of steps or no shards, or the arguments do not fit streams.
    """
    length, world_size = stream.samples_per_epoch or UNKNOWN, process.world_size
    group = variants.group
    divide: Divide = "shards" if stream.divides_itself else stream.divide
    if last_batch == "pad":
        raise LoaderError(
            'last_batch="pad" repeats samples from the beginning of an epoch, which a stream cannot read again; give '
            '"drop" or "partial"'
        )
    if batch_size % group:
        raise LoaderError(
            f"batch_size={batch_size} is not a multiple of {group}, the number of neighbours that the recipe mixes, as "
            "streams need it; give such a batch size"
        )
    if divide == "shards" and world_size > 1:
        if length == UNKNOWN:
            raise LoaderError(
                f"{world_size} ranks that divide the shards of a stream could have unequal numbers of steps: say how "
                'many samples an epoch has, as in open_dataset(..., format="stream", samples_per_epoch=1_000_000), or '
                'let every rank read all of them and take its part, with divide="samples"'
            )
        if not stream.divides_itself and stream.num_shards < world_size:
            raise LoaderError(
                f"{stream.num_shards} shards cannot be divided among {world_size} ranks: make more shards, or open the "
                'stream with divide="samples"'
            )
    steps = StreamSteps(length, batch_size, process.rank, world_size, last_batch, variants, divide)
    if steps.num_steps() == 0:
        raise LoaderError(
            f"an epoch has no full batch: samples_per_epoch={length}, batch_size={batch_size}, "
            f'world_size={world_size}; use a smaller batch, or last_batch="partial"'
        )
    return steps
