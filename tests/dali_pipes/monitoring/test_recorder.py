"""What the recorder counts for which stage, by a clock that the test moves."""

import os
import pickle
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dali_pipes.monitoring import recorder as recorder_module
from dali_pipes.monitoring.counts import Counts, bucket_of, quantiles
from dali_pipes.monitoring.observer import Span, Spans
from dali_pipes.monitoring.recorder import Recorder
from gpu_aug.compiled.clock import clock
from readers.storage.traffic import Traffic


class Hands:
    """A clock that goes on when it is told to."""

    now = 100.0

    def __call__(self) -> float:
        """The time."""
        return self.now


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> Hands:
    hands = Hands()
    monkeypatch.setattr(recorder_module, "clock", hands)
    return hands


def seconds(recorder: Recorder) -> dict[str, float]:
    return {name: one.seconds for name, one in recorder.totals().stages.items() if one.calls}


def test_a_stage_within_another(hands: Hands) -> None:
    """The time of the inner one is no time of the outer one, and what failed took its time, too."""
    recorder = Recorder()
    with recorder.measure("header"):
        hands.now += 1
        with suppress(OSError), recorder.measure("read"):
            hands.now += 10
            raise OSError
        hands.now += 2
    assert seconds(recorder) == {"header": 3.0, "read": 10.0}


def test_calls_that_are_not_over(hands: Hands) -> None:
    """They count as work that is done, and are told of."""
    recorder = Recorder()
    with recorder.measure("header", work="rows"):
        hands.now += 1
        with recorder.measure("read", work="files"):
            hands.now += 10
            busy = recorder.busy().seconds
            [running] = recorder.running()
    assert (busy["header"], busy["read"]) == (1.0, 10.0)
    name = threading.current_thread().name
    assert (running.stage, running.seconds, running.work, running.thread) == (
        "read",
        10.0,
        "files",
        name,
    )
    assert (recorder.running(), recorder.busy().seconds["header"]) == ([], 1.0)


def test_threads_do_not_mix(hands: Hands) -> None:
    """A call in one thread is not within that of another."""
    recorder, inside, go_on = Recorder(), threading.Event(), threading.Event()

    def read() -> None:
        with recorder.measure("read"):
            inside.set()
            go_on.wait(10)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(read)
        inside.wait(10)
        with recorder.measure("decode"):
            hands.now += 5
        go_on.set()
    assert seconds(recorder) == {"decode": 5.0, "read": 5.0}


def test_sums_can_be_sent_and_added(hands: Hands) -> None:
    """What a helper process counted comes to what this one has; taking it leaves nothing behind."""
    there, here = Recorder(), Recorder()
    for recorder in (there, here):
        with recorder.measure("decode", samples=4, num_bytes=70):
            hands.now += 2
        recorder.waited("decode", "a thread", 0.5)
        recorder.count_full_decodes(["png", "png"])
    there.traffic.add(Traffic(requests=2))
    held = there.traffic
    here.absorb(pickle.loads(pickle.dumps(there.take())), 3.0)
    counts = here.totals()
    decode = counts.stages["decode"]
    assert (decode.calls, decode.samples, decode.num_bytes, decode.seconds) == (2, 8, 140, 4.0)
    assert (decode.waits, decode.waited) == ({"a thread": 2}, {"a thread": 1.0})
    assert (counts.whole_images, here.busy().helper_seconds) == ({"png": 4}, 3.0)
    assert not there.totals().stages["decode"].calls
    held.add(Traffic(requests=3))  # what was under way then
    here.absorb(there.take(), 0.0)
    assert here.totals().traffic.requests == 5


def test_observers_get_every_span(hands: Hands) -> None:
    """Each with when, by whom and for which step it was, which one within another has of that one."""
    recorder, notebook = Recorder(), Spans()
    recorder.observe(notebook)
    with recorder.measure("read", work=SimpleNamespace(plan=SimpleNamespace(step=7))) as call:
        hands.now += 2
        call.samples, call.num_bytes = 3, 40
        with recorder.measure("targets"):
            hands.now += 1
    recorder.ignore(notebook)
    with recorder.measure("read"):
        hands.now += 1
    inner, outer = notebook.take()
    here = (threading.current_thread().name, threading.get_native_id(), os.getpid())
    assert outer == Span("read", *here, 100.0, 103.0, 3, 40, 7)
    assert inner == Span("targets", *here, 102.0, 103.0, 0, 0, 7)


@pytest.mark.parametrize(("by_others", "cpu_seconds"), [(False, 0.0), (True, 5.0)])
def test_seconds_with_a_core(hands: Hands, by_others: bool, cpu_seconds: float) -> None:
    """A thread that only waits has none; of work that others do it is not known, and taken for granted."""
    recorder = Recorder()
    with recorder.measure("decode", by_others=by_others):
        hands.now += 5
    assert recorder.totals().stages["decode"].cpu_seconds == pytest.approx(cpu_seconds, abs=0.01)


@pytest.fixture
def _many_switches() -> Iterator[None]:
    """Threads hand over to each other wherever they can."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def count(recorder: Recorder, calls: int) -> None:
    """Count everything that a thread can count, the stages one within the other."""
    for _ in range(calls):
        with recorder.measure("header", samples=2), recorder.measure("read", num_bytes=3):
            pass
        recorder.waited("decode", "a thread", 0.25)
        recorder.count_full_decodes({"png": 2})


@pytest.mark.usefixtures("_many_switches")
@pytest.mark.parametrize("take", [False, True])
def test_many_threads_lose_nothing(take: bool) -> None:
    """Threads count while another one asks all the time; half of them end, and leave what they counted."""
    recorder, absorbed, calls = Recorder(), Recorder(), 300
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            absorbed.absorb(recorder.take() if take else Counts(), 0.0)
            counts = recorder.totals()
            assert all(one.calls >= 0 for one in counts.stages.values())
            recorder.busy()
            recorder.running()

    with ThreadPoolExecutor(1) as asking:
        asked = asking.submit(ask)
        for _ in range(2):
            threads = [threading.Thread(target=count, args=(recorder, calls)) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        over.set()
        asked.result(60)
    absorbed.absorb(recorder.take(), 0.0)
    found = absorbed.totals()
    header, read, decode = (found.stages[name] for name in ("header", "read", "decode"))
    total = 16 * calls
    assert (header.calls, header.samples, read.calls, read.num_bytes) == (
        total,
        2 * total,
        total,
        3 * total,
    )
    assert sum(header.durations.values()) == sum(read.durations.values()) == total
    assert (decode.waits, decode.waited["a thread"]) == (
        {"a thread": total},
        pytest.approx(total / 4),
    )
    assert found.whole_images == {"png": 2 * total}
    assert not any(one.calls for one in recorder.totals().stages.values())


def test_counting_takes_no_lock() -> None:
    """A thread counts while all locks of the recorder and of the clock are held."""
    recorder = Recorder()
    owners: list[Any] = [recorder, recorder.traffic, clock]
    locks = [value for one in owners for value in attributes(one) if hasattr(value, "acquire")]
    assert len(locks) == len(owners)
    thread = threading.Thread(target=count, args=(recorder, 3), daemon=True)
    with ExitStack() as held:
        for lock in locks:
            held.enter_context(lock)
        thread.start()
        thread.join(20)
        assert not thread.is_alive()
    assert recorder.totals().stages["read"].calls == 3


def attributes(one: object) -> list[Any]:
    """The values of an object's attributes."""
    names = getattr(one, "__dict__", None) or type(one).__slots__  # type: ignore[attr-defined]
    return [getattr(one, name) for name in names]


def test_work_that_ends_while_somebody_looks(hands: Hands) -> None:
    """A call that ends between two looks at its thread counts once."""
    recorder = Recorder()

    class Stages(dict[Any, Any]):
        """Whoever looks at the sums sees those from before the inner call ends, which it does then."""

        def values(self) -> Any:
            """The sums."""
            values = [replace(one) for one in super().values()]
            if recorder.running()[0].stage == "read":
                inner.__exit__(None, None, None)
            return values

    with recorder.measure("header"):
        hands.now += 1
        inner = recorder.measure("read")
        inner.__enter__()
        hands.now += 10
        [thread] = recorder._threads.values()
        thread.stages = Stages(thread.stages)
        busy = recorder.busy().seconds
    assert (busy["header"], busy["read"]) == (1.0, 10.0)


def test_a_short_gap_is_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call right after another one takes the time of the core from that one; after a while it asks again."""
    asked: list[float] = []

    def thread_time() -> float:
        asked.append(time.thread_time())
        return asked[-1]

    monkeypatch.setattr(recorder_module, "thread_time", thread_time)
    monkeypatch.setattr(recorder_module, "_AT_ONCE_SECONDS", 0.2)
    recorder = Recorder()
    for pause, looks in ((0.0, 2), (0.0, 1), (0.3, 2)):
        time.sleep(pause)
        asked.clear()
        with recorder.measure("decode"):
            sum(range(100_000))
        assert len(asked) == looks
    decode = recorder.totals().stages["decode"]
    assert 0 < decode.cpu_seconds <= decode.seconds


def histogram(seconds: np.ndarray) -> Counter[int]:
    return Counter(map(bucket_of, seconds.tolist()))


@pytest.mark.parametrize("spread", [0.1, 1.0, 3.0])
def test_quantiles_are_numpys(spread: float) -> None:
    """Within the 5 % that the buckets allow, and no closer than they can be."""
    seconds = np.exp(np.random.default_rng(0).normal(-6, spread, 20_001))
    shares = (0.5, 0.9, 0.99)
    numpys = np.quantile(seconds, shares, method="inverted_cdf")
    right, wrong = (
        np.abs(np.array(quantiles(histogram(factor * seconds), *shares)) / numpys - 1).max()
        for factor in (1, 1.12)
    )
    assert right < 0.05 <= wrong


def test_no_calls() -> None:
    """Nothing is no time, and so is what the clock cannot tell from it."""
    assert (quantiles({}, 0.5, 0.9), bucket_of(0.0)) == ((0.0, 0.0), 0)
