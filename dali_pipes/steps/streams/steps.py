"""The steps of an epoch of a stream: which places of a lane each of them reads."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import count
from typing import Any

import numpy as np

from dali_pipes.arguments.process_rank import Process
from dali_pipes.errors import LoaderError, StateMismatchError
from dali_pipes.steps.buckets import AnySteps as IndexedSteps
from dali_pipes.steps.schedule import Consumed, LastBatch, Plan, total
from dali_pipes.steps.streams.lane import Given, Mark
from dali_pipes.steps.variants import Variants
from readers import part
from readers.stream import Divide, Stream

UNKNOWN = 1 << 62
"""In place of the length of an epoch that ends where the stream does."""

_LOOPS = count()


@dataclass(frozen=True, slots=True)
class StreamPlan(Plan):
    """A step of a stream.

    Attributes:
        loop: Number of the loop it belongs to, whose steps are read in order.
        lane: Which lane is read.
        num_lanes: How many there are.
        first: The place in the lane at which the step begins.
        count: How many places all ranks that share the lane take of it.
        skip: The place of this rank's first one among these.
        start: Positions of the epoch that all ranks together had before this step.
        mark: For the first step of a loop, from where the lane can be read; of a step that was read, the same for
            the next step. None is the beginning of the epoch.
        over: Whether the stream was at its end before this step, which then has no samples and is not handed over.
        ends: Whether it is the last of its epoch, as far as that is known.
        whole: Whether a step that is not full counts as over.
        reserve: Its samples, then those near it, for those that are bad and replaced; not sent to other processes.
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
    whole: bool = True
    reserve: tuple[Given, ...] = field(default=(), compare=False, repr=False)

    def __getstate__(self) -> tuple[Any, ...]:
        """All but the reserve."""
        return tuple(getattr(self, one.name) for one in fields(self) if one.name != "reserve")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        for one, value in zip(fields(self), (*state, ()), strict=True):
            object.__setattr__(self, one.name, value)

    def as_read(self, num_read: int, mark: Mark) -> "StreamPlan":
        """Return the step once it is known how many of its places there were."""
        if num_read == self.count:
            return replace(self, mark=mark)
        over = num_read == 0 or self.whole
        own = 0 if over else min(max(num_read - self.skip, 0), len(self.positions))
        rows = np.arange(own)
        return replace(
            self,
            positions=self.positions[:own],
            rows=rows,
            valid=self.valid[:own],
            consumed=self.start if over else self.start + num_read,
            mark=mark,
            over=over,
        )


@dataclass(frozen=True, slots=True)
class StreamSteps:
    """The steps of an epoch, the same number on every rank.

    Where ranks divide the shards, each takes the next samples of its own lane; where they divide the samples there is
    one lane, of whose next `global_batch` samples each takes its part.

    Attributes:
        length: Samples of an epoch over all ranks, `UNKNOWN` where it ends with the stream.
        batch_size: Samples per rank and step.
        rank: This rank, 0 <= rank < world_size.
        world_size: Number of ranks.
        last_batch: "drop" leaves an incomplete last step out, "partial" shares it out.
        variants: The recipes of the run.
        divide: What the ranks divide.
        saved: Where the run stands, for its state: what `note` and `load` put there.
    """

    length: int
    batch_size: int
    rank: int
    world_size: int
    last_batch: LastBatch
    variants: Variants
    divide: Divide
    saved: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def group(self) -> int:
        """How many neighbours are mixed: 1, 2 or 4."""
        return self.variants.group

    @property
    def global_batch(self) -> int:
        """Samples per step over all ranks."""
        return self.batch_size * self.world_size

    @property
    def largest(self) -> int:
        """The most positions that a plan can have."""
        return self.batch_size

    @property
    def left_out(self) -> int:
        """Samples that an epoch leaves out, as far as that is known."""
        known = self.length != UNKNOWN and self.last_batch == "drop"
        return self.length % self.global_batch if known else 0

    def largest_of(self, variant: int) -> int:
        """The most positions that a plan of a variant can have."""
        del variant
        return self.largest

    def num_steps(self, consumed: Consumed = 0) -> int:
        """Steps that are left in an epoch; very many where its length is not known."""
        left = self.length - total(consumed)
        if self.last_batch == "drop":
            return left // self.global_batch
        return -(-left // self.global_batch)

    def plans(self, epoch: int, consumed: Consumed = 0) -> Iterator[Plan]:
        """The steps that are left in an epoch, in order; without end where its length is not known."""
        loop, num_steps, had = next(_LOOPS), self.num_steps(consumed), total(consumed)
        mark = self._mark(epoch, had)
        for step in range(num_steps):
            start = had + step * self.global_batch
            stop = min(start + self.global_batch, self.length)
            low, high = part(start, stop, self.rank, self.world_size)
            own = np.arange(low, high, dtype=np.int64)
            last = step == num_steps - 1
            shares = self.divide == "samples"
            yield StreamPlan(
                epoch,
                step,
                own,
                np.arange(len(own)),
                np.ones(len(own), bool),
                # What "drop" leaves out is consumed with the last step, so that the epoch is over.
                self.length if last else stop,
                self.rank,
                self.variants.at(epoch),
                loop=loop,
                lane=0 if shares else self.rank,
                num_lanes=1 if shares else self.world_size,
                first=start if shares else start // self.world_size,
                count=stop - start if shares else len(own),
                skip=low - start if shares else 0,
                start=start,
                mark=mark if step == 0 else None,
                ends=last,
                whole=self.last_batch == "drop",
            )

    def note(self, plan: Plan) -> None:
        """A step was handed over, or turned out to be behind the end."""
        if not isinstance(plan, StreamPlan):
            return
        if plan.over:  # where it stands is where the step before has left it
            self.saved.update(epoch=plan.epoch, over=True)
        else:
            self.saved.update(epoch=plan.epoch, consumed=plan.consumed, mark=plan.mark, over=False)

    def state(self, epoch: int, consumed: int) -> dict[str, Any]:
        """What a state says of the stream besides."""
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
        """Take what a state says of the stream; returns whether its epoch was over.

        Raises:
            StateMismatchError: It was taken on another number of ranks, which divide the shards differently.
        """
        stream = state.get("stream")
        self.saved.clear()
        if not isinstance(stream, Mapping):
            if self.divide == "shards" and self.world_size > 1:
                raise StateMismatchError(
                    "this state says nothing of a stream, so it is not known how many ranks divided the shards; give "
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
            return False  # somebody moved the state, so nothing is known of the place
        mark = stream.get("mark")
        usable = self.divide == "samples" or stream.get("rank") == self.rank
        if usable and mark is not None:
            self.saved.update(
                epoch=state["epoch"], consumed=state["consumed"], mark=_as_mark(mark), over=False
            )
        return bool(stream.get("over"))

    def _mark(self, epoch: int, consumed: int) -> Mark | None:
        saved = self.saved
        here = saved.get("epoch") == epoch and saved.get("consumed") == consumed
        mark: Mark | None = saved.get("mark") if here else None
        return mark


AnySteps = IndexedSteps | StreamSteps


def _as_mark(mark: Any) -> Mark:
    fits = isinstance(mark, list | tuple) and len(mark) == len(Mark._fields)
    if not fits or not all(type(number) is int and number >= 0 for number in mark):
        raise StateMismatchError(
            "the state's mark of the stream is damaged; leave the entry 'stream' out of its copy, or start anew"
        )
    return Mark(*mark)


def stream_steps(
    stream: Stream, batch_size: int, last_batch: LastBatch, variants: Variants, process: Process
) -> StreamSteps:
    """Return the steps of an epoch of a stream.

    Raises:
        LoaderError: The ranks would not take as many steps, or find no shards; or the arguments do not fit streams.
    """
    length, world_size = stream.samples_per_epoch or UNKNOWN, process.world_size
    group = variants.group
    divide: Divide = "shards" if stream.divides_itself else stream.divide
    if last_batch == "pad":
        raise LoaderError(
            'last_batch="pad" repeats samples from the beginning of an epoch, which a stream has behind it; give '
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
