"""A trace of an epoch: what the format asks for, and numbers that add up to the loader's statistics."""

import gzip
import json
import os
import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dali_pipes import Execution, LoaderError, Monitoring, traced
from dali_pipes.monitoring.observer import BatchEvent, Span
from dali_pipes.monitoring.trace import QUEUE, TRAINING_STEP, WAIT, Trace
from gpu_aug import HorizontalFlip, RandomResizedCrop, Recipe
from tests.support.loaders import loader_maker
from tests.support.small import SmallDataset, make_small

RECIPE = Recipe([RandomResizedCrop(8), HorizontalFlip()])
NUM_STEPS = 5
Event = dict[str, Any]

# https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU: fields that each phase must have.
NEEDED = {
    "X": {"name": str, "cat": str, "ts": float, "dur": float, "pid": int, "tid": int, "args": dict},
    "C": {"name": str, "ts": float, "pid": int, "args": dict},
    "M": {"name": str, "pid": int, "tid": int, "args": dict},
}


@pytest.fixture
def dataset(jpeg: Callable[..., bytes]) -> SmallDataset:
    """Small pictures for five steps."""
    return make_small(jpeg, 4 * NUM_STEPS)


load = loader_maker(RECIPE, num_threads=2)


def read(path: Path) -> list[Event]:
    """The events of a file, each of which has what the format asks for."""
    document = json.loads(path.read_text())
    events: list[Event] = document["traceEvents"]
    for event in events:
        for name, kind in NEEDED[event["ph"]].items():
            assert isinstance(event[name], (kind, int) if kind is float else kind), (name, event)
        assert event.get("dur", 0) >= 0
    return events


def own_seconds(events: list[Event]) -> dict[str, float]:
    """Seconds by name, less those of events within; events of a thread lie within each other or apart."""
    threads = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            threads[event["pid"], event["tid"]].append(event)
    seconds: Counter[str] = Counter()
    for thread in threads.values():
        around: list[tuple[float, str]] = []
        for event in sorted(thread, key=lambda one: (one["ts"], -one["dur"])):
            end = event["ts"] + event["dur"]
            while around and around[-1][0] <= event["ts"] + 0.002:
                around.pop()
            if around:
                assert end <= around[-1][0] + 0.002, "events of a thread overlap"
                seconds[around[-1][1]] -= event["dur"] / 1e6
            seconds[event["name"]] += event["dur"] / 1e6
            around.append((end, event["name"]))
    return seconds


def test_adds_up(dataset: SmallDataset, tmp_path: Path) -> None:
    """Stages, waiting and training steps are those of the statistics."""
    loader = load(dataset)
    list(loader)  # compiles, where that was never done
    with traced(loader, tmp_path / "trace.json"):
        list(loader)
    events, stats = read(tmp_path / "trace.json"), loader.stats()
    seconds = own_seconds(events)
    for name, stage in stats.stages.items():
        assert seconds[name] == pytest.approx(stage.busy_seconds, abs=1e-5), name
        assert sum(event["name"] == name for event in events) == stage.calls
    waits = [event for event in events if event["name"] == WAIT]
    assert [event["args"]["step"] for event in waits] == list(range(NUM_STEPS))
    waited = sum(event["dur"] for event in waits[1:]) / 1e6
    # An event ends when the batch is handed over, a little after the wait: on a busy machine by milliseconds.
    assert stats.wait_seconds - 1e-5 <= waited <= stats.seconds
    steps = [event for event in events if event["name"] == TRAINING_STEP]
    assert [event["args"] for event in steps] == [{"step": n, "rows": 4} for n in range(NUM_STEPS)]
    in_loop = sum(event["dur"] for event in [*waits[1:], *steps[:-1]]) / 1e6
    assert in_loop == pytest.approx(stats.seconds, abs=1e-5)
    ready = [event["args"]["batches"] for event in events if event["name"] == QUEUE]
    assert len(ready) == NUM_STEPS
    assert all(0 <= count <= stats.queue.capacity for count in ready)


def test_names_and_steps(dataset: SmallDataset, tmp_path: Path) -> None:
    """Threads have names, and every call of a stage says for which step it was."""
    loader = load(dataset)
    with traced(loader, tmp_path / "trace.json"):
        list(loader)
    events = read(tmp_path / "trace.json")
    names = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert "training loop" in names
    assert 1 <= sum(name.startswith("gpu-aug") for name in names) <= 2
    stages = [event for event in events if event.get("cat") == "stage"]
    assert {event["args"]["step"] for event in stages} == set(range(NUM_STEPS))
    rows = Counter(event["name"] for event in stages for _ in range(event["args"].get("rows", 0)))
    assert rows["decode"] == rows["read"] == rows["augment"] == 4 * NUM_STEPS
    assert loader._recorder.observers == ()


@pytest.mark.long
def test_helper_process(dataset: SmallDataset, tmp_path: Path) -> None:
    """What a helper process does is there under its number, on the same clock."""
    loader = load(
        dataset,
        execution=Execution(helper_process=True),
        monitoring=Monitoring(metrics=lambda _: None),
    )
    with loader, traced(loader, tmp_path / "trace.json"):
        list(loader)
        stats = loader.stats()
    events = read(tmp_path / "trace.json")
    here = {event["name"] for event in events if event["pid"] == os.getpid()}
    there = [event for event in events if event["ph"] == "X" and event["pid"] != os.getpid()]
    assert {"transfer", "hand_over", WAIT, TRAINING_STEP} <= here
    assert {"read", "decode", "augment"} <= {event["name"] for event in there}
    assert sum(event["name"] == "decode" for event in there) == stats.stages["decode"].calls
    assert own_seconds(there)["decode"] == pytest.approx(stats.stages["decode"].busy_seconds, 1e-3)
    got = {e["args"]["step"]: e["ts"] + e["dur"] for e in events if e["name"] == WAIT}
    for event in there:
        assert event["ts"] + event["dur"] <= got[event["args"]["step"]] + 1000, (
            "done before it was handed over"
        )
    processes = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    assert sorted(processes) == ["helper process", "training process"]


def test_a_loop_that_fails(dataset: SmallDataset, tmp_path: Path) -> None:
    """What there was is written all the same; compressed, if the name says so."""
    path = tmp_path / "trace.json.gz"
    with pytest.raises(ZeroDivisionError), traced(load(dataset), path):  # noqa: PT012
        for _ in load(dataset):
            break
        raise ZeroDivisionError
    assert json.loads(gzip.decompress(path.read_bytes()))["displayTimeUnit"] == "ms"


def test_most_events(tmp_path: Path) -> None:
    """Memory is bounded, and the file says how much is missing."""
    trace = Trace(max_events=3)
    for number in range(5):
        trace.on_span(Span("read", "a", 1, 2, number, number + 0.5, 0, 0, None))
    trace.write(tmp_path / "trace.json", {})
    document = json.loads((tmp_path / "trace.json").read_text())
    assert sum(event["ph"] == "X" for event in document["traceEvents"]) == 3
    assert document["otherData"]["events that were left out"] == 2


def test_a_file_that_cannot_be_written(dataset: SmallDataset, tmp_path: Path) -> None:
    """That is said before the loop begins."""
    loader = load(dataset)
    with (
        pytest.raises(LoaderError, match="the trace cannot be written to"),
        traced(loader, tmp_path / "no" / "t"),
    ):
        pytest.fail("the block has begun")
    assert loader._recorder.observers == ()


class Collected(NamedTuple):
    """A span in the midst of which the garbage collector ends the loop."""

    trace: Trace
    span: Span

    def __getattr__(self, name: str) -> Any:
        """End the loop, and go on."""
        self.trace.on_loop_end(3.0)
        return getattr(self.span, name)


def test_loop_that_the_collector_ends(tmp_path: Path) -> None:
    """It may do so in any thread, in the middle of a call; the training step is still that of the training loop."""
    trace, path = Trace(), tmp_path / "trace.json"
    trace.on_batch(BatchEvent(step=1, samples=4, ready=0, asked=1.0, got=2.0))
    span = Span("read", "a thread", 7, os.getpid(), 1.0, 2.5, 4, 0, 2)
    thread = threading.Thread(target=trace.on_span, args=(Collected(trace, span),), daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive(), "it waits for itself"
    trace.write(path, {})
    events = {event["name"]: event for event in read(path) if event["ph"] == "X"}
    assert events.keys() == {"read", WAIT, TRAINING_STEP}
    assert events[TRAINING_STEP]["tid"] == events[WAIT]["tid"] == threading.get_native_id()
    assert (events[TRAINING_STEP]["ts"], events[TRAINING_STEP]["dur"]) == (2e6, 1e6)
