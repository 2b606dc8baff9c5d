"""Count the calls and the time of each stage in a loader's threads."""

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
    """Seconds that threads have worked on the stages.

    Attributes:
        seconds: Seconds of all threads, by stage.
        training_thread_seconds: The training thread's part of `seconds`, by stage.
        helper_seconds: Elapsed seconds times threads, over all helper processes.
    """

    seconds: Mapping[Stage, float]
    training_thread_seconds: Mapping[Stage, float]
    helper_seconds: float


@dataclass(frozen=True, slots=True)
class Running:
    """The present work of a thread.

    Attributes:
        thread: Name of the thread.
        ident: Identifier of the thread, see `threading.get_ident`.
        stage: The stage that the thread works on.
        seconds: Seconds since the thread began this work.
        work: The samples that the thread works on; `str` describes them.
    """

    thread: str
    ident: int
    stage: Stage
    seconds: float
    work: Any


# Replaces the innermost call of a thread while an ending call is added to the sums.
_CHANGING: Any = object()

_MAX_LOOKS = 100
"""How often to try to read the innermost call of a thread that is ending a call, which takes well below a
microsecond."""

_AT_ONCE_SECONDS = 1e-5
"""A thread that starts a call this soon after its latest call has kept its core: losing and regaining it takes longer.

This saves asking the system, which costs 0.6 of the 3 microseconds of a call."""


class Recorder:
    """Counts the work of a loader's stages; thread-safe.

    Time for compiling our own functions, which happens once, counts for no stage.

    Each thread counts in its own object, and readers add the numbers up. Counting takes no lock: threads would queue
    for a shared lock, and each waiting thread would also release the GIL. A number is changed only by its own thread
    and only grows, so `take` does not need to reset anything. These operations must be atomic: loading and storing an
    attribute; loading, storing and `setdefault` of a dictionary key; copying a dictionary. (In CPython they are for
    keys that are strings or integers, because no Python code runs meanwhile.) ``+=`` does not need to be atomic.

    Attributes:
        observers: The observers of the loader; see `observe`.
        traffic: Sums of remote reading; see `readers.storage.traffic.counted`.
    """

    def __init__(self) -> None:
        self.observers: tuple[Observer, ...] = ()
        self._lock = threading.Lock()  # held to read, absorb or observe; never to count
        # Keyed by `threading.get_ident`. The system reuses the ident of an ended thread for a new thread, which continues
        # its counts. So nothing is lost, and there are never more entries than simultaneous threads.
        self._threads: dict[int, _ThreadCounts] = {}
        # Counts of helper processes and remote reading, minus everything that `take` returned.
        self._others = Counts()
        self._helper_seconds = 0.0
        self._looping = -1  # ident of the training thread; -1 is no thread's ident

    def __reduce__(self) -> tuple[type["Recorder"], tuple[()]]:
        """Pickle an empty recorder: another process counts its own work."""
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
        """Stop sending events to an observer."""
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
        """Count the time of a block for a stage. The time of a nested block counts only for the nested stage.

        Args:
            stage: The stage.
            samples: Count of samples in the block; it may be set inside the block, like `num_bytes`.
            num_bytes: For read and decode, encoded bytes; for other stages, bytes that are produced or copied.
            work: The samples of the block; None means those of the enclosing block. Its `str` is only called for a
                report; its `plan` is the step.
            by_others: Whether other threads (such as DALI's) do the work while the calling thread waits. It is assumed
                that these threads have a core.
        """
        thread = self._threads.get(get_ident()) or self._own_counts()
        return _Call(self, thread, stage, samples, num_bytes, work, by_others)

    def waited(self, stage: Stage, what: str, seconds: float) -> None:
        """Count the time that a stage waited for something."""
        counts = self._own_counts().stages[stage]
        counts.waits[what] = counts.waits.get(what, 0) + 1
        counts.waited[what] = counts.waited.get(what, 0.0) + max(0.0, seconds)

    def count_full_decodes(self, kinds: Sequence[str] | Mapping[str, int]) -> None:
        """Count images that another decoder than our JPEG decoder decoded in full.

        Args:
            kinds: The kind of each image, or the count of images by kind.
        """
        self._own_counts().whole_images.update(kinds)

    def count_frames(self, hits: int, misses: int) -> None:
        """Count frames of videos that were in the cache of decoded frames, and those that were not."""
        self._own_counts().frames.update(hits=hits, misses=misses)

    def absorb(self, counts: Counts, thread_seconds: float) -> None:
        """Add the counts of a helper process, whose threads together had `thread_seconds` of time."""
        with self._lock:
            self._others.add(counts)
            self._helper_seconds += thread_seconds

    def totals(self) -> Counts:
        """Return the sums over all finished calls."""
        with self._lock:
            return self._sums()

    def take(self) -> Counts:
        """Return the sums since the last call of `take`."""
        with self._lock:
            taken = self._sums()
            # Counts that arrive meanwhile are returned next time: the threads' own numbers only grow.
            self._others.add(taken, -1)
            return taken

    def busy(self) -> Busy:
        """Return the work so far, including unfinished calls."""
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
        """Register the calling thread as the training thread."""
        self._looping = get_ident()

    def running(self) -> list[Running]:
        """Return the present work of each thread that works on a stage."""
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
        sums = Counts()
        sums.add(self._others)
        for thread in dict(self._threads).values():
            for stage, counts in thread.stages.items():
                if counts.calls or counts.waits:
                    sums.stages[stage].add(counts)
            add_into(sums.whole_images, thread.whole_images, 1)
            add_into(sums.frames, thread.frames, 1)
        return sums


class _ThreadCounts:
    """The counts of one thread, and its innermost stage call.

    Only the thread itself changes the counts, and they only grow.

    Attributes:
        stages: Sums of each stage, in the order of STAGES.
        whole_images: Count of images, by kind, that another decoder than our JPEG decoder decoded in full.
        frames: Count of frames of videos, by whether they were in the cache of decoded frames ("hits" and "misses").
        innermost: The innermost unfinished call; `_CHANGING` while a call is added to the sums.
        cpu: CPU seconds of the thread until `cpu_at`, the end of its latest call.
    """

    __slots__ = ("cpu", "cpu_at", "frames", "innermost", "stages", "whole_images")

    def __init__(self) -> None:
        self.stages = {stage: StageCounts() for stage in STAGES}
        self.whole_images: Counter[str] = Counter()
        self.frames: Counter[str] = Counter()
        self.innermost: _Call | None = None
        self.cpu, self.cpu_at = 0.0, -math.inf

    def open_call(self) -> "_Call | None":
        """Return the innermost unfinished call."""
        for _ in range(_MAX_LOOKS):
            if (call := self.innermost) is not _CHANGING:
                return call
            time.sleep(0)  # lets that thread run
        return None

    def seconds(self, now: float) -> list[float]:
        """Return the seconds of each of STAGES: of finished calls, and of unfinished calls until now.

        If a call ends meanwhile, it might be missed or counted twice, so everything is read again. If a thread ends
        calls all the time, the last reading is used: such calls are short.
        """
        for _ in range(_MAX_LOOKS):
            call = one = self.open_call()
            until, within = now, 0.0 if one is None else one.within_seconds
            spent = [counts.seconds for counts in self.stages.values()]
            if call is None:  # a call that has started since then has hardly taken any time
                break
            while one is not None:
                so_far = max(0.0, until - one.began - one.within_seconds)
                spent[STAGES.index(one.stage)] += so_far
                until, one = one.began, one.outer
            # A nested call that started and ended meanwhile has changed `within_seconds`, if it took any time.
            if self.innermost is call and call.within_seconds == within:
                break
        return spent


class _Call:
    """A call of a stage, which is a context manager; see Recorder.measure.

    Attributes:
        began: Start time; `cpu_began` is the thread's CPU time at the start.
        within_seconds: Seconds of finished nested calls; `within_cpu_seconds` their CPU time.
        outer: The enclosing call, or None.
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
        thread.innermost = self  # set last, because other threads can see the call from here on
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
            # The clock goes back if a helper process reports compiling time. Comparisons are used because `min` and
            # `max` take 60 ns each.
            if own < 0:
                own = 0.0
            # Our clock excludes compiling, but the CPU clock includes it.
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
            # Runs even if Ctrl-C came in between.
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
