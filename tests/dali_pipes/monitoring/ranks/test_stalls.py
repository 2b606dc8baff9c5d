"""A loop that gets no batch is spoken of once, with what its threads do; and the watch leaves nothing behind."""

import gc
import io
import logging
import multiprocessing
import re
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dali_pipes import Batch, Execution, Heartbeat, Loader, LoaderError, Monitoring
from dali_pipes.monitoring.ranks.background import RepeatingThread, call_with_timeout, warn_visibly
from dali_pipes.monitoring.ranks.stall import file_at, loader_threads
from gpu_aug import RandomResizedCrop, Recipe
from readers import open_dataset
from readers.storage.remote import configure
from tests.support.loaders import loader_maker
from tests.support.remote_data import set_up, write_shards
from tests.support.s3_server import storage
from tests.support.slow_datasets import Repeated, hang_at

SHARD = "/data/train-000017.tar"
SOON = Heartbeat(every_seconds=0.2, stall_seconds=0.6)

load = loader_maker(
    Recipe([RandomResizedCrop(16)]), shuffle="none", monitoring=Monitoring(heartbeat=SOON)
)


@contextmanager
def looping(loader: Loader) -> Iterator[Future[list[Batch]]]:
    """Loop in a thread of its own; gives the batches that come in the end."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(lambda: list(loader))


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until something is the case, at most a minute."""
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


class Gate:
    """Whoever comes to it waits until it is opened."""

    def __init__(self) -> None:
        self.has_come, self.is_open = threading.Event(), threading.Event()

    def __call__(self) -> None:
        """Wait."""
        self.has_come.set()
        assert self.is_open.wait(60)


@pytest.fixture(autouse=True)
def _nothing_left_by_others() -> None:
    """Loops that other tests left behind end when they are collected."""
    gc.collect()


def watches() -> list[str]:
    """The threads of watches."""
    return [one.name for one in threading.enumerate() if one.name.startswith("gpu-aug-watch")]


class TestFetchThatHangs:
    def test_message(self, folder: Path, hands: Any, said: Any) -> None:
        """Stage, keys, file and stacks are said once, and that it is over once."""
        gate = Gate()
        with looping(load(Repeated(open_dataset(folder), 40, hang_at(0, gate), SHARD))) as loop:
            assert gate.has_come.wait(60)
            hands.go_on(0.5)
            assert said() == []
            hands.go_on(2.5)
            [stall] = said()
            gate.is_open.set()
            assert len(loop.result(60)) == 10
        assert re.match(
            r"the training loop \(.*, process \d+\) has waited 1 s for batch 0 of epoch 0 .*"
            r"\(longest at work: read /data/train-000017.tar, .*; nothing has moved for 1 s\n",
            stall,
        )
        for words in (
            r"gpu-aug_0: read for [\d.]+ s: step 0: sample 0, sample 1, sample 2 and 1 more, at /data/train-000017.tar",
            r"Where they are:(.|\n)*gpu-aug_0:\n(.|\n)*slow_datasets.py:\d+ hang_at",
        ):
            assert re.search(words, stall)
        [_, over] = said()
        assert re.search(r"has got its batch, and goes on, after 3 s$", over)

    def test_loop_that_is_left(self, folder: Path, hands: Any, said: Any) -> None:
        """Where the batch never comes that is said as well."""
        gate = Gate()

        def fail() -> None:
            gate()
            raise ArithmeticError

        with looping(load(Repeated(open_dataset(folder), 40, hang_at(0, fail)))) as loop:
            assert gate.has_come.wait(60)
            hands.go_on(1)
            gate.is_open.set()
            with pytest.raises(ArithmeticError):
                loop.result(60)
        assert re.search(r"has ended its loop without it, after 1 s$", said()[-1])

    def test_slow_is_told_from_standing_still(self, folder: Path, hands: Any, said: Any) -> None:
        """Where calls of stages end meanwhile that is said, with how many."""
        gates = [Gate(), Gate()]
        hold_up = lambda indices: gates[indices[0]]() if indices[0] < 2 else None  # noqa: E731
        data = Repeated(open_dataset(folder), 12, hold_up)
        with looping(load(data, batch_size=1, execution=Execution(prefetch=11))) as loop:
            assert gates[0].has_come.wait(60)
            hands.go_on(0.5)
            gates[0].is_open.set()
            assert gates[1].has_come.wait(60)
            hands.go_on(0.5)
            gates[1].is_open.set()
            loop.result(60)
        assert re.search(r"it goes on, slowly: calls that have ended are 1 of read", said()[0])

    def test_remote_file(
        self,
        tmp_path: Path,
        jpeg: Callable[..., bytes],
        monkeypatch: pytest.MonkeyPatch,
        hands: Any,
        said: Any,
    ) -> None:
        """Of a request that is open the URL is said, and the bytes that were asked for."""
        pytest.importorskip("obstore")
        write_shards(tmp_path / "served", jpeg, num=1)
        set_up(monkeypatch, tmp_path)
        configure(cache_bytes=0)
        with storage(tmp_path / "served") as server:
            url = f"{server.url}/train-000.tar"
            data = open_dataset(url)
            assert not data.class_names  # which would be asked for by a log at INFO
            server.faults(delay=60)
            with looping(load(data)) as loop:
                wait_until(lambda: "delayed" in server.count())
                hands.go_on(1)
                server.faults()
                loop.result(60)
        configure(cache_bytes=None)
        stall = said()[0]
        assert f"read {url}, " in stall.splitlines()[0]
        assert re.search(rf"at {re.escape(url)} bytes \d+ to \d+", stall)


@pytest.mark.long
def test_helper_process(folder: Path, tmp_path: Path, hands: Any, said: Any) -> None:
    """The helper process is asked what its threads do."""
    data = Repeated(open_dataset(folder), 24, HangAt(tmp_path), SHARD)
    with load(data, execution=Execution(helper_process=True)) as loader, looping(loader) as loop:
        wait_until((tmp_path / "has come").exists)
        hands.go_on(1)
        (tmp_path / "is open").touch()
        loop.result(60)
    here, there = said()[-2].split("In the helper process:\n")
    assert "(the training loop): waits" in here
    assert re.search(r"gpu-aug_0: read for .* step 0: sample 0.*at /data/train-000017.tar", there)
    assert "HangAt.__call__" in there


class HangAt:
    """Holds up the fetch of samples 0 to 3 until a file is there; it can be pickled."""

    def __init__(self, marks: Path) -> None:
        self.marks = marks

    def __call__(self, indices: list[int]) -> None:
        """Hold up one fetch."""
        if len(indices) == 4 and 0 in indices:
            (self.marks / "has come").touch()
            wait_until((self.marks / "is open").exists)


class TestThreads:
    @pytest.mark.parametrize(
        "how", ["drop", *(pytest.param(how, marks=pytest.mark.long) for how in ("end", "close"))]
    )
    def test_nothing_is_left(self, folder: Path, how: str) -> None:
        """A watch ends with its loop: at the end, by close, and when a loop is dropped."""
        loader = load(open_dataset(folder))
        batches = iter(loader)
        next(batches)
        assert watches() == ["gpu-aug-watch"]
        if how == "end":
            list(batches)
        elif how == "close":
            loader.close()
        else:
            del batches
            gc.collect()
        assert watches() == []

    def test_none(self, folder: Path) -> None:
        """Where nothing is asked for nobody watches; a loader takes no other word."""
        batches = iter(load(open_dataset(folder), monitoring=Monitoring(heartbeat=None)))
        next(batches)
        assert watches() == []
        with pytest.raises(LoaderError, match="heartbeat=7 is not known"):
            load(open_dataset(folder), monitoring=Monitoring(heartbeat=7))

    @pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
    def test_fork(self, folder: Path) -> None:
        """A child that is forked in the middle of a loop ends as usual."""
        batches = iter(load(open_dataset(folder)))
        next(batches)
        child = multiprocessing.get_context("fork").Process(target=batches.close)
        child.start()
        child.join(60)
        assert (child.exitcode, watches()) == (0, ["gpu-aug-watch"])


def test_no_garbage_is_collected_while_frames_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python before 3.12 would stop for good."""
    taken, collects = sys._current_frames, list[bool]()
    monkeypatch.setattr(sys, "_current_frames", lambda: collects.append(gc.isenabled()) or taken())
    loader_threads()
    assert collects == [False]
    assert gc.isenabled()


def test_looking_at_threads_holds_nothing() -> None:
    """What lies in frames, such as batches, goes when they end, without a run of the garbage collector."""

    def look() -> Callable[[], threading.Event | None]:
        thing = threading.Event()
        assert loader_threads(threading.get_ident()) is not None
        return weakref.ref(thing)

    def look_from_elsewhere() -> Callable[[], threading.Event | None]:
        thing = threading.Event()
        call_with_timeout(10, lambda: [file_at(one.frame) for one in loader_threads(main)], [])
        return weakref.ref(thing)

    main = threading.get_ident()
    gc.disable()
    try:
        assert look()() is None
        assert look_from_elsewhere()() is None
    finally:
        gc.enable()


class TestRepeatingThread:
    def test_error(self, said: Any) -> None:
        """A watch that fails is spoken of, and the loop goes on."""

        def fail(is_last: bool) -> None:
            raise ArithmeticError(is_last)

        daemon = RepeatingThread("gpu-aug-watch", 0.01, fail)
        daemon.join(10)
        assert "the loop goes on" in said()[0]

    def test_end_while_it_hangs(self) -> None:
        """What hangs is not waited for."""
        gate = Gate()
        daemon = RepeatingThread("gpu-aug-watch", 0.01, lambda _: gate())
        assert gate.has_come.wait(60)
        daemon.end()
        daemon.join(0.01)
        assert watches() == ["gpu-aug-watch"]
        gate.is_open.set()
        daemon.join(10)

    def test_call_with_timeout(self) -> None:
        """Who does not answer in time, or fails, gives the other answer."""
        ended = threading.Event()
        assert (
            call_with_timeout(5, lambda: 1, 2),
            call_with_timeout(0.05, lambda: ended.wait(60), 2),
        ) == (1, 2)
        assert call_with_timeout(5, lambda: 1 // 0, 2) == 2
        ended.set()


def take_handlers_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a program that has set up nothing; not in a fixture, for pytest adds its own after these."""
    for name in (None, "gpu_aug"):
        monkeypatch.setattr(logging.getLogger(name), "handlers", [])


class TestSpeaking:
    """A warning is seen by the handlers that there are, else on stderr, and once."""

    def test_nobody_has_set_up_logging(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Python writes it, or we where a library's handler keeps Python from it."""
        take_handlers_away(monkeypatch)
        warn_visibly("one")
        logging.getLogger("gpu_aug").addHandler(logging.NullHandler())
        warn_visibly("two")
        assert capsys.readouterr().err == "one\ntwo\n"

    def test_handlers_and_levels(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whoever has a handler, or wants no warnings, decides."""
        take_handlers_away(monkeypatch)
        logger, stream = logging.getLogger("gpu_aug"), io.StringIO()
        logger.addHandler(logging.StreamHandler(stream))
        warn_visibly("one")
        logger.setLevel(logging.ERROR)
        warn_visibly("two")
        logger.setLevel(logging.NOTSET)
        assert (stream.getvalue(), capsys.readouterr().err) == ("one\n", "")
