"""The recorder of a loader: every thread tells it which stage it works on, and for how long."""

import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from dali_pipes.stats.counts import STAGES, Counts, Stage, add_into
from dali_pipes.stats.durations import bucket_of
from dali_pipes.stats.observer import Observer, Span
from dali_pipes.stats.ranges import open_range
from gpu_aug.compiled.clock import clock
from readers.storage.traffic import Traffic


@dataclass(frozen=True, slots=True)
class Busy:
    """Seconds of work.

    Attributes:
        seconds: Of all threads, by stage.
        own: Of these, what the thread of the training loop did.
        elsewhere: Thread seconds that helper processes had.
    """

    seconds: Mapping[Stage, float]
    own: Mapping[Stage, float]
    elsewhere: float


@dataclass(frozen=True, slots=True)
class Running:
    """What a thread is doing.

    Attributes:
        thread: Its name.
        ident: Its number, as of `threading.get_ident`.
        stage: The stage that it works on.
        seconds: For how long.
        work: What it works on; made into words by `str`.
    """

    thread: str
    ident: int
    stage: Stage
    seconds: float
    work: Any


class Recorder:
    """Counts what the stages of a loader do; safe from any thread.

    What is spent compiling our own functions, which is done once, counts for no stage.

    Attributes:
        observers: Watch the loader; see `observe`.
        traffic: What is read remotely; see `readers.storage.traffic.counted`.
    """

    def __init__(self) -> None:
        self.observers: tuple[Observer, ...] = ()
        self._lock = threading.Lock()
        self._counts = Counts()
        self._open: dict[int, _Measured] = {}  # by thread: the innermost one
        self._elsewhere_seconds = 0.0
        self._looping: int | None = None
        self._own: dict[Stage, float] = dict.fromkeys(STAGES, 0.0)

    def __reduce__(self) -> tuple[type["Recorder"], tuple[()]]:
        """In another process nothing is done yet."""
        return Recorder, ()

    @property
    def traffic(self) -> Traffic:
        """What is read remotely."""
        return self._counts.traffic

    def observe(self, observer: Observer) -> None:
        """Tell an observer of what happens from now on."""
        with self._lock:
            self.observers = (*self.observers, observer)

    def ignore(self, observer: Observer) -> None:
        """Tell an observer nothing more."""
        with self._lock:
            self.observers = tuple(one for one in self.observers if one is not observer)

    def tell(self, spans: Iterable[Span]) -> None:
        """Tell all observers of spans."""
        for span in spans:
            for observer in self.observers:
                observer.span(span)

    def measure(
        self,
        stage: Stage,
        *,
        samples: int = 0,
        num_bytes: int = 0,
        work: Any = None,
        by_others: bool = False,
    ) -> "_Measured":
        """Count the time of a block for a stage. Within the block of another stage that one's time stands still.

        Args:
            stage: The stage.
            samples: Samples that it works on; so `num_bytes`, see StageCounts. Both may be set in the block.
            num_bytes: Bytes.
            work: What it works on, None for what a stage around it does; its `str` is asked for only if somebody wants
                to know. Its `plan` is the step.
            by_others: Whether the calling thread waits for others that do the work, such as DALI's: whether those have
                a core is not known, and taken for granted.
        """
        return _Measured(self, stage, samples, num_bytes, work, by_others)

    def waited(self, stage: Stage, what: str, seconds: float) -> None:
        """Count that a stage waited for something."""
        with self._lock:
            counts = self._counts.stages[stage]
            add_into(counts.waits, {what: 1}, 1)
            add_into(counts.waited, {what: max(0.0, seconds)}, 1)

    def count_whole_images(self, kinds: Sequence[str]) -> None:
        """Count images that our JPEG decoder left to another one."""
        with self._lock:
            self._counts.whole_images.update(kinds)

    def absorb(self, counts: Counts, thread_seconds: float) -> None:
        """Add what a helper process counted while its threads had so many seconds together."""
        with self._lock:
            self._counts.add(counts)
            self._elsewhere_seconds += thread_seconds

    def totals(self) -> Counts:
        """Sums of all calls that are over."""
        with self._lock:
            return self._counts.copy()

    def taken(self) -> Counts:
        """Sums since this was called the last time."""
        with self._lock:
            taken = self._counts.copy()
            # What is read meanwhile counts for those that are left.
            self._counts.add(taken, -1)
            return taken

    def busy(self) -> Busy:
        """Work so far, that of calls which are not over included."""
        with self._lock:
            now = clock()
            seconds = {stage: one.seconds for stage, one in self._counts.stages.items()}
            own = dict(self._own)
            for ident, innermost in self._open.items():
                innermost.add_to(seconds, now)
                if ident == self._looping:
                    innermost.add_to(own, now)
            return Busy(seconds, own, self._elsewhere_seconds)

    def looping(self) -> None:
        """Say that the calling thread is the one of the training loop."""
        self._looping = threading.get_ident()

    def running(self) -> list[Running]:
        """What every thread is doing now that works on a stage."""
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        with self._lock:
            now = clock()
            return [
                Running(names.get(ident, str(ident)), ident, one.stage, now - one.began, one.work)
                for ident, one in self._open.items()
            ]


class _Measured:
    """A call of a stage; see Recorder.measure."""

    __slots__ = (
        "began", "by_others", "cpu_seconds", "cpu_since", "num_bytes", "outer", "range", "recorder", "samples", "seconds",
        "since", "stage", "work",
    )  # fmt: skip

    def __init__(
        self,
        recorder: Recorder,
        stage: Stage,
        samples: int,
        num_bytes: int,
        work: Any,
        by_others: bool,
    ) -> None:
        self.recorder, self.stage, self.work, self.by_others = recorder, stage, work, by_others
        self.samples, self.num_bytes = samples, num_bytes
        self.seconds = self.cpu_seconds = 0.0
        self.outer: _Measured | None = None
        self.began = self.since = self.cpu_since = 0.0

    def __enter__(self) -> "_Measured":
        recorder, ident = self.recorder, threading.get_ident()
        self.range = open_range(self.stage)
        with recorder._lock:
            now, cpu = clock(), time.thread_time()
            outer = self.outer = recorder._open.get(ident)
            if outer is not None:
                outer._stop(now, cpu)
                self.work = outer.work if self.work is None else self.work
            self.began = self.since = now
            self.cpu_since = cpu
            recorder._open[ident] = self
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        recorder, ident = self.recorder, threading.get_ident()
        with recorder._lock:
            now, cpu = clock(), time.thread_time()
            self._stop(now, cpu)
            counts = recorder._counts.stages[self.stage]
            counts.calls += 1
            counts.samples += self.samples
            counts.num_bytes += self.num_bytes
            counts.seconds += self.seconds
            # Compiling takes no time by our clock, but by that of the core.
            counts.cpu_seconds += (
                self.seconds if self.by_others else min(self.cpu_seconds, self.seconds)
            )
            if ident == recorder._looping:
                recorder._own[self.stage] += self.seconds
            bucket = bucket_of(self.seconds)
            counts.durations[bucket] = counts.durations.get(bucket, 0) + 1
            if self.outer is None:
                del recorder._open[ident]
            else:
                self.outer.since, self.outer.cpu_since = now, cpu
                recorder._open[ident] = self.outer
        if self.range is not None:
            self.range.close()
        if recorder.observers:
            self._tell(max(now, self.began))

    def add_to(self, seconds: dict[Stage, float], now: float) -> None:
        """Add what this call and those around it have taken so far."""
        seconds[self.stage] += max(0.0, now - self.since)
        one: _Measured | None = self
        while one is not None:
            seconds[one.stage] += one.seconds
            one = one.outer

    def _stop(self, now: float, cpu: float) -> None:
        # The clock goes back while this waits if a helper process says that it has compiled.
        self.seconds += max(0.0, now - self.since)
        self.cpu_seconds += max(0.0, cpu - self.cpu_since)

    def _tell(self, ended: float) -> None:
        thread = threading.current_thread()
        span = Span(
            stage=self.stage,
            thread=thread.name,
            thread_id=threading.get_native_id(),
            process=os.getpid(),
            began=self.began,
            ended=ended,
            samples=self.samples,
            num_bytes=self.num_bytes,
            step=None if self.work is None else self.work.plan.step,
        )
        self.recorder.tell([span])
