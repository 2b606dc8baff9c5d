"""What the recorder counts for which stage, by a clock that the test moves."""

import os
import pickle
import threading
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace

import pytest

from dali_pipes.stats import recorder as recorder_module
from dali_pipes.stats.observer import Spans
from dali_pipes.stats.recorder import Recorder
from readers.storage.traffic import Traffic


class Hands:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """The time."""
        return self.now


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hands]:
    hands = Hands()
    monkeypatch.setattr(recorder_module, "clock", hands)
    return hands


def seconds(recorder: Recorder) -> dict[str, float]:
    return {name: one.seconds for name, one in recorder.totals().stages.items() if one.calls}


def test_a_stage_within_another(hands: Hands) -> None:
    """The time of the inner one is no time of the outer one."""
    recorder = Recorder()
    with recorder.measure("header"):
        hands.now += 1
        with recorder.measure("read"):
            hands.now += 10
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
    assert (running.stage, running.seconds, running.work) == ("read", 10.0, "files")
    assert running.thread == threading.current_thread().name
    assert recorder.running() == []
    assert recorder.busy().seconds["header"] == 1.0


def test_errors_end_a_call(hands: Hands) -> None:
    """What failed took its time, too."""
    recorder = Recorder()
    with suppress(OSError), recorder.measure("read"):
        hands.now += 4
        raise OSError
    assert seconds(recorder) == {"read": 4.0}


def test_threads_do_not_mix(hands: Hands) -> None:
    """A call in one thread is not within that of another."""
    recorder, inside = Recorder(), threading.Event()

    def read() -> None:
        with recorder.measure("read"):
            inside.set()
            go_on.wait(10)

    go_on = threading.Event()
    thread = threading.Thread(target=read)
    thread.start()
    inside.wait(10)
    with recorder.measure("decode"):
        hands.now += 5
    go_on.set()
    thread.join()
    assert seconds(recorder) == {"decode": 5.0, "read": 5.0}


def test_sums_can_be_sent_and_added(hands: Hands) -> None:
    """What a helper process counted comes to what this one has; taking it leaves nothing behind."""
    there, here = Recorder(), Recorder()
    for recorder in (there, here):
        with recorder.measure("decode", samples=4, num_bytes=70):
            hands.now += 2
        recorder.waited("decode", "a thread", 0.5)
        recorder.count_whole_images(["png", "png"])
    there.traffic.add(Traffic(requests=2))
    held = there.traffic
    here.absorb(pickle.loads(pickle.dumps(there.taken())), 3.0)
    counts = here.totals()
    decode = counts.stages["decode"]
    assert (decode.calls, decode.samples, decode.num_bytes, decode.seconds) == (2, 8, 140, 4.0)
    assert (decode.waits, decode.waited) == ({"a thread": 2}, {"a thread": 1.0})
    assert counts.whole_images == {"png": 4}
    assert here.busy().elsewhere == 3.0
    assert not there.totals().stages["decode"].calls
    held.add(Traffic(requests=3))  # what was under way then
    here.absorb(there.taken(), 0.0)
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
    inner, outer = notebook.taken()
    assert (outer.stage, outer.began, outer.ended) == ("read", 100.0, 103.0)
    assert (outer.samples, outer.num_bytes, outer.step) == (3, 40, 7)
    assert (inner.stage, inner.began, inner.ended, inner.step) == ("targets", 102.0, 103.0, 7)
    assert (outer.process, outer.thread_id) == (os.getpid(), threading.get_native_id())
    assert outer.thread == threading.current_thread().name


@pytest.mark.parametrize(("by_others", "cpu_seconds"), [(False, 0.0), (True, 5.0)])
def test_seconds_with_a_core(hands: Hands, by_others: bool, cpu_seconds: float) -> None:
    """A thread that only waits has none; of work that others do it is not known, and taken for granted."""
    recorder = Recorder()
    with recorder.measure("decode", by_others=by_others):
        hands.now += 5
    assert recorder.totals().stages["decode"].cpu_seconds == pytest.approx(cpu_seconds, abs=0.01)
