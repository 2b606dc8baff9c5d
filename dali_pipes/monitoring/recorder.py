"""Recorder: counts which stages the threads of a loader work on, and for how long."""

import math
import os
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import get_ident
from time import thread_time
from types import TracebackType
from typing import Any

from dali_pipes.monitoring.counts import STAGES, Counts, Stage, StageCounts, add_into, bucket_of
from dali_pipes.monitoring.observer import Observer, Span
from dali_pipes.monitoring.ranges import open_range
from gpu_aug.compiled.clock import clock
from readers.storage.traffic import Traffic


@dataclass(frozen=True, slots=True)
class Busy:
    """Seconds of work.

    Attributes:
        seconds: Those of all threads, by stage.
        training_thread_seconds: The part of the training loop's thread, by stage.
        helper_seconds: Seconds that the threads of helper processes had available.
    """

    seconds: Mapping[Stage, float]
    training_thread_seconds: Mapping[Stage, float]
    helper_seconds: float


@dataclass(frozen=True, slots=True)
class Running:
    """The work of a thread at this moment.

    Attributes:
        thread: Its name.
        ident: Its number, as of `threading.get_ident`.
        stage: The stage that it works on.
        seconds: For how long.
        work: What it works on; `str` puts it into words.
    """

    thread: str
    ident: int
    stage: Stage
    seconds: float
    work: Any


# Stands for the innermost call of a thread while one that ends becomes part of the sums.
_CHANGING: Any = object()

_MAX_LOOKS = 100
"""Looks at a thread that ends a call, which takes well below a microsecond."""

_AT_ONCE_SECONDS = 1e-5
"""A thread that begins a call this soon after its latest one has kept its core: to lose and get it back takes longer.

Asking the system costs 0.6 of the 3 microseconds of a call.
"""


class Recorder:
    """Counts what the stages of a loader do; safe from any thread.

    What is spent compiling our own functions, which is done once, counts for no stage.

    Every thread counts in an object of its own, and a reader adds the numbers up. Counting takes no lock: threads would
    queue for a shared one, and each that waits gives up the interpreter, too. A number is changed by its own thread alone
    and only grows, so `take` need not reset anything. What must be atomic is: loading and storing an attribute; loading,
    storing and `setdefault` of a dictionary's key; copying a dictionary. (In CPython it is, for keys that are strings and
    integers: no Python code runs meanwhile.) ``+=`` need not be.

    Attributes:
        observers: Watch the loader; see `observe`.
        traffic: What is read remotely; see `readers.storage.traffic.counted`.
    """

    def __init__(self) -> None:
        self.observers: tuple[Observer, ...] = ()
        self._lock = threading.Lock()  # taken to read, absorb or observe; never to count
        # By `threading.get_ident`. The system gives the number of a thread that has ended to a new one, which then goes
        # on with its counts: so nothing is lost, and there are no more of them than there were threads at a time.
        self._threads: dict[int, _ThreadCounts] = {}
        self._others = Counts()  # of helper processes, and remote reading; less all that was taken
        self._helper_seconds = 0.0
        self._looping = -1  # the number of the loop's thread; no thread has this one

    def __reduce__(self) -> tuple[type["Recorder"], tuple[()]]:
        """Pickle it empty: another process counts its own work."""
        return Recorder, ()

    @property
    def traffic(self) -> Traffic:
        """Sums of remote reading."""
        return self._others.traffic

    def observe(self, observer: Observer) -> None:
        """Send events to an observer from now on."""
        with self._lock:
            self.observers = (*self.observers, observer)

    def ignore(self, observer: Observer) -> None:
        """Send no more events to an observer."""
        with self._lock:
            self.observers = tuple(one for one in self.observers if one is not observer)

    def send_spans(self, spans: Iterable[Span]) -> None:
        """Send spans to all observers."""
        for span in spans:
            for observer in self.observers:
                observer.on_span(span)

    def measure(
        self,
        stage: Stage,
        *,
        samples: int = 0,
        num_bytes: int = 0,
        work: Any = None,
        by_others: bool = False,
    ) -> "_Call":
        """Count the time of a block for a stage. Time of a nested block counts for the nested stage only.

        Args:
            stage: The stage.
            samples: Number of samples that it works on; may be set in the block, as `num_bytes`.
            num_bytes: See StageCounts.
            work: What it works on, None for the work of the block around it. Its `str` is only called for a report; its
                `plan` is the step.
            by_others: Whether other threads do the work while the calling one waits, such as DALI's: whether these have
                a core is unknown, and assumed.
        """
        thread = self._threads.get(get_ident()) or self._own_counts()
        return _Call(self, thread, stage, samples, num_bytes, work, by_others)

    def waited(self, stage: Stage, what: str, seconds: float) -> None:
        """Count that a stage waited for something."""
        counts = self._own_counts().stages[stage]
        counts.waits[what] = counts.waits.get(what, 0) + 1
        counts.waited[what] = counts.waited.get(what, 0.0) + max(0.0, seconds)

    def count_full_decodes(self, kinds: Sequence[str] | Mapping[str, int]) -> None:
        """Count images that another decoder than our JPEG decoder decoded in full.

        Args:
            kinds: The kind of each, or how many there are of each kind.
        """
        self._own_counts().whole_images.update(kinds)

    def absorb(self, counts: Counts, thread_seconds: float) -> None:
        """Add the counts of a helper process, whose threads had this many seconds together."""
        with self._lock:
            self._others.add(counts)
            self._helper_seconds += thread_seconds

    def totals(self) -> Counts:
        """Return the sums of all calls that are over."""
        with self._lock:
            return self._sums()

    def take(self) -> Counts:
        """Return the sums since the last call of this."""
        with self._lock:
            taken = self._sums()
            # What is counted or read meanwhile is left for the next time: the threads' own numbers only ever grow.
            self._others.add(taken, -1)
            return taken

    def busy(self) -> Busy:
        """Return the work so far, including that of calls that are not over."""
        with self._lock:
            now = clock()
            threads = {ident: one.seconds(now) for ident, one in dict(self._threads).items()}
            others = [one.seconds for one in self._others.stages.values()]
            sums = map(sum, zip(others, *threads.values(), strict=True))
            own = threads.get(self._looping, [0.0] * len(STAGES))
            return Busy(
                dict(zip(STAGES, sums, strict=True)),
                dict(zip(STAGES, own, strict=True)),
                self._helper_seconds,
            )

    def set_loop_thread(self) -> None:
        """Note that the calling thread is the one of the training loop."""
        self._looping = get_ident()

    def running(self) -> list[Running]:
        """Return what each thread is doing now that works on a stage."""
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        calls = {ident: thread.open_call() for ident, thread in dict(self._threads).items()}
        now = clock()
        return [
            Running(names.get(ident, str(ident)), ident, one.stage, now - one.began, one.work)
            for ident, one in calls.items()
            if one is not None
        ]

    def _own_counts(self) -> "_ThreadCounts":
        """Return the counts of the calling thread."""
        ident = get_ident()
        return self._threads.get(ident) or self._threads.setdefault(ident, _ThreadCounts())

    def _sums(self) -> Counts:
        sums = self._others.copy()
        for thread in dict(self._threads).values():
            for stage, counts in thread.stages.items():
                if counts.calls or counts.waits:
                    sums.stages[stage].add(counts)
            add_into(sums.whole_images, thread.whole_images, 1)
        return sums


class _ThreadCounts:
    """The counts of one thread, and the innermost call of a stage that it is in.

    The thread alone changes it; the numbers only ever grow.

    Attributes:
        stages: Sums of each stage, in the order of STAGES.
        whole_images: See `Recorder.count_full_decodes`.
        innermost: The innermost call that is not over; `_CHANGING` while one becomes part of the sums.
        cpu: Seconds that the thread had a core until `cpu_at`, the end of its latest call.
    """

    __slots__ = ("cpu", "cpu_at", "innermost", "stages", "whole_images")

    def __init__(self) -> None:
        self.stages = {stage: StageCounts() for stage in STAGES}
        self.whole_images: Counter[str] = Counter()
        self.innermost: _Call | None = None
        self.cpu, self.cpu_at = 0.0, -math.inf

    def open_call(self) -> "_Call | None":
        """Return the innermost call that is not over."""
        for _ in range(_MAX_LOOKS):
            if (call := self.innermost) is not _CHANGING:
                return call
            time.sleep(0)  # lets that thread go on
        return None

    def seconds(self, now: float) -> list[float]:
        """Return the seconds of each of STAGES: of calls that are over, and of those that are not, until now.

        If a call ends meanwhile it might be missed or counted twice, so it is all read again. For a thread that ends calls
        all the time the last reading is taken: such calls are short.
        """
        for _ in range(_MAX_LOOKS):
            call = one = self.open_call()
            until, within = now, 0.0 if one is None else one.within_seconds
            spent = [counts.seconds for counts in self.stages.values()]
            if call is None:  # one that has begun since then has hardly taken any time
                break
            while one is not None:
                so_far = max(0.0, until - one.began - one.within_seconds)
                spent[STAGES.index(one.stage)] += so_far
                until, one = one.began, one.outer
            # A call within this one that came and went has added to its `within_seconds`, if it took any time.
            if self.innermost is call and call.within_seconds == within:
                break
        return spent


class _Call:
    """A call of a stage; see Recorder.measure.

    Attributes:
        began: When it began; `cpu_began` by the clock of the thread's core.
        within_seconds: Seconds of the calls within it that are over; `within_cpu_seconds` those with a core.
        outer: The call around it, or None.
        thread: The counts of its thread.
    """

    __slots__ = (
        "began", "by_others", "cpu_began", "num_bytes", "outer", "range", "recorder", "samples", "stage", "thread",
        "within_cpu_seconds", "within_seconds", "work",
    )  # fmt: skip

    def __init__(
        self,
        recorder: Recorder,
        thread: _ThreadCounts,
        stage: Stage,
        samples: int,
        num_bytes: int,
        work: Any,
        by_others: bool,
    ) -> None:
        self.recorder, self.thread, self.stage = recorder, thread, stage
        self.samples, self.num_bytes = samples, num_bytes
        self.work, self.by_others = work, by_others
        self.within_seconds = self.within_cpu_seconds = 0.0

    def __enter__(self) -> "_Call":
        thread = self.thread
        outer = self.outer = thread.innermost
        if outer is not None and self.work is None:
            self.work = outer.work
        self.range = open_range(self.stage)
        now = self.began = clock()
        gap = now - thread.cpu_at
        self.cpu_began = thread.cpu + gap if 0 <= gap < _AT_ONCE_SECONDS else thread_time()
        thread.innermost = self  # last, since other threads can see it from here on
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        thread, outer = self.thread, self.outer
        try:
            now = clock()
            cpu = thread.cpu = thread_time()
            thread.cpu_at = now
            cpu_seconds = cpu - self.cpu_began
            seconds = now - self.began
            own, own_cpu = seconds - self.within_seconds, cpu_seconds - self.within_cpu_seconds
            # The clock goes back meanwhile if a helper process reports that it has compiled. Comparisons, since `min` and
            # `max` take 60 ns each.
            if own < 0:
                own = 0.0
            # Compiling takes no time by our clock, but it does by that of the core.
            if own_cpu > own or self.by_others:
                own_cpu = own
            elif own_cpu < 0:
                own_cpu = 0.0
            bucket = bucket_of(own)
            counts = thread.stages[self.stage]
            durations = counts.durations
            thread.innermost = _CHANGING
            if outer is not None:
                outer.within_seconds += seconds
                outer.within_cpu_seconds += cpu_seconds
            counts.calls += 1
            counts.samples += self.samples
            counts.num_bytes += self.num_bytes
            counts.seconds += own
            counts.cpu_seconds += own_cpu
            durations[bucket] = durations.get(bucket, 0) + 1
        finally:
            # Also after Ctrl-C in between.
            thread.innermost = outer
        if self.range is not None:
            self.range.close()
        if self.recorder.observers:
            self._tell(max(now, self.began))

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
        self.recorder.send_spans([span])
