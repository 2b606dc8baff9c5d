"""The fetch stage of a stream: threads may request the steps of a loop in any order; steps are read in their order.

A lane is the sequence of samples that one reader of the stream yields; see `dali_pipes.steps.streams.lane`.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from dali_pipes.errors import LoaderError
from dali_pipes.monitoring.recorder import Recorder
from dali_pipes.monitoring.work import Rows
from dali_pipes.runs.bad_samples import MAX_SUBSTITUTES, BadRecord, substitute
from dali_pipes.stages.fetch import Fetcher
from dali_pipes.stages.read_samples import Read
from dali_pipes.steps.schedule import Plan
from dali_pipes.steps.streams.lane import NUM_NEAR, Given, Lane, LaneSpec, Mark
from dali_pipes.steps.streams.order import SHARD_BITS, UNKNOWN, StreamOrder
from dali_pipes.steps.streams.steps import StreamPlan
from gpu_aug.compiled.clock import clock
from readers import BadSample, Sample
from readers.storage.traffic import counted


class _Loop:
    """Reads the lane of one loop, and makes threads read the loop's steps in order."""

    def __init__(self) -> None:
        self.lane: Lane | None = None
        self._turn = threading.Condition()
        self._step = 0
        self._has_ended = False

    def begin(self, step: int, recorder: Recorder) -> None:
        """Wait until the steps before this one are read.

        Raises:
            LoaderError: A previous step could not be read, or the loop is finished.
        """
        with self._turn:
            if not self._has_ended and self._step != step:
                asked = clock()
                self._turn.wait_for(lambda: self._has_ended or self._step == step)
                recorder.waited("read", "its turn", clock() - asked)
            if self._has_ended:
                raise LoaderError(
                    "a step before this one could not be read, so the stream ends here"
                )

    def end(self, *, for_all: bool) -> None:
        """Let the thread of the next step read; with `for_all`, end the loop for all waiting threads instead."""
        with self._turn:
            self._step += 1
            self._has_ended |= for_all
            self._turn.notify_all()


class Readers:
    """Reads the steps of all running loops from a stream; each loop has a lane of its own.

    Several threads may request the steps of a loop; each waits until the previous steps are read.

    Args:
        alone: Whether a new loop ends the earlier loops. A helper process needs this: it is not told when a loop ends.
    """

    def __init__(self, *, alone: bool = False) -> None:
        self._alone = alone
        self._lock = threading.Lock()
        self._loops: dict[int, _Loop] = {}

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        """Pickle without the lanes: a helper process opens its own."""
        return partial(Readers, alone=True), ()

    def read(
        self,
        plan: StreamPlan,
        open_lane: Callable[[StreamPlan], Lane],
        recorder: Recorder,
        own: Callable[[Sample | BadSample], Sample | BadSample],
    ) -> tuple[list[Given], Mark, list[Given]]:
        """Return the samples of a step, the mark after it, and the samples near that position.

        Args:
            plan: The step.
            open_lane: Opens the lane of its loop.
            recorder: Measures reading and waiting.
            own: `Fetcher.owned`, which copies a sample out of mapped files.

        Raises:
            LoaderError: A previous step could not be read.
        """
        if self._alone:
            for number in [number for number in self._loops if number != plan.loop]:
                self.finish(number)
        with self._lock:
            loop = self._loops.setdefault(plan.loop, _Loop())
        loop.begin(plan.step, recorder)
        failed = True
        try:
            with recorder.measure("read", work=Rows(plan, ())) as call, counted(recorder.traffic):
                lane = loop.lane = loop.lane or open_lane(plan)
                given = [one._replace(sample=own(one.sample)) for one in lane.read(plan.count)]
                call.samples = len(given)
                near, mark = lane.near(), lane.mark()
            failed = False
        finally:
            loop.end(for_all=failed)
        if plan.ends:
            self.finish(plan.loop)
        return given, mark, near

    def finish(self, number: int) -> None:
        """Close the lane of a finished loop."""
        with self._lock:
            loop = self._loops.pop(number, None)
        if loop is not None:
            loop.end(for_all=True)
            if loop.lane is not None:
                loop.lane.close()


@dataclass(frozen=True, slots=True)
class StreamFetcher(Fetcher):
    """Reads the samples of plans from a stream; see Fetcher.

    The draws of a sample depend on its index in the dataset, which is the sample's index in the shard plus the index of
    the shard times 2**32. If the shards are read again within an epoch, the sample gets different draws.
    """

    readers: Readers = field(default_factory=Readers)

    def finish(self, plan: Plan) -> None:
        """Close the lane of a finished loop."""
        self.readers.finish(cast(StreamPlan, plan).loop)

    def read(self, plan: Plan) -> Read:
        """Read the next samples of the plan's loop."""
        assert isinstance(plan, StreamPlan)
        given, mark, near = self.readers.read(plan, self._open, self.recorder, self.owned)
        plan = plan.as_read(len(given), mark)
        own = given[plan.skip : plan.skip + len(plan.positions)]
        if self.policy == "replace":
            plan = replace(plan, reserve=(*own, *near))
        indices = np.array([one.sample.index for one in own], np.int64)
        repeats = np.array([one.turn for one in own], np.int64)
        return plan, [one.sample for one in own], indices, repeats

    def candidate(
        self, plan: Plan, records: Sequence[BadRecord]
    ) -> tuple[Sample | BadSample, int] | None:
        """Return a substitute from the same step, or from near it if all samples of the step are bad.

        Also return the repeat for the substitute's draws: that of the next pass over the shards, so that the substitute
        gets other draws than the sample itself.
        """
        assert isinstance(plan, StreamPlan)
        bad, num_own = {record.index for record in records}, len(plan.positions)
        own, near = plan.reserve[:num_own], plan.reserve[num_own:]
        number = substitute(self.seed, records, max(num_own, 1))
        if number is None or all(one.sample.index in bad for one in own):
            others = [one for one in near if one.sample.index not in bad]
            own = tuple(one._replace(sample=self.owned(one.sample)) for one in others)
            number = substitute(self.seed, records[:MAX_SUBSTITUTES], max(len(own), 1))
        if number is None or not own:
            return None
        return own[number].sample, own[number].turn + 1

    def identities(
        self, indices: NDArray[np.int64], repeats: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the numbers from which the parameters of samples are drawn, int64 [n]."""
        stop = self.stream_order.stream.num_shards << SHARD_BITS  # above the index of every sample
        return indices + repeats * stop

    @property
    def stream_order(self) -> StreamOrder:
        """The order of the stream."""
        order: Any = self.order
        return cast(StreamOrder, order)

    def _open(self, plan: StreamPlan) -> Lane:
        order = self.stream_order
        spec = LaneSpec(
            order.stream,
            self.seed,
            plan.epoch,
            plan.lane,
            plan.num_lanes,
            order.window,
            len(order) != UNKNOWN,
            NUM_NEAR if self.policy == "replace" else 0,
        )
        return Lane(spec, plan.first, plan.mark)
