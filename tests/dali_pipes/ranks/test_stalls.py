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
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dali_pipes import Heartbeat, Loader, LoaderError
from dali_pipes.ranks.daemon import Daemon
from dali_pipes.ranks.speak import speak
from dali_pipes.ranks.threads_now import file_at, loader_threads
from dali_pipes.ranks.within import within
from gpu_aug import RandomResizedCrop, Recipe
from readers import open_dataset
from readers.storage.remote import configure
from tests.support.loaders import loader_maker
from tests.support.remote_data import set_up, write_shards
from tests.support.s3_server import storage
from tests.support.slow_datasets import Repeated, hang_at

RECIPE = Recipe([RandomResizedCrop(16)])
SOON = Heartbeat(every_seconds=0.2, stall_seconds=0.6)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, jpeg: Callable[..., bytes]) -> Path:
    """Eight small images."""
    root = tmp_path_factory.mktemp("images")
    for number in range(8):
        (root / f"{number:02d}.jpg").write_bytes(jpeg(20, 30, seed=number))
    list(Loader(open_dataset(root), RECIPE, batch_size=4, device="cpu", heartbeat=None))  # imports
    return root


load = loader_maker(RECIPE, shuffle="none", heartbeat=SOON)


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was said as a warning."""
    return [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]


@contextmanager
def once_said(words: str, then: Callable[[], Any]) -> Iterator[None]:
    """Within the block do something as soon as a message with these words was logged."""
    logger, said = logging.getLogger("gpu_aug"), threading.Event()

    def look(record: logging.LogRecord) -> bool:
        if words in record.getMessage() and not said.is_set():
            said.set()
            then()
        return True

    listener = logging.NullHandler()
    listener.handle = look
    logger.addHandler(listener)
    try:
        yield
    finally:
        logger.removeHandler(listener)


@pytest.fixture(autouse=True)
def _nothing_left_by_others() -> None:
    """Loops that other tests left behind end when they are collected."""
    gc.collect()


def watches() -> list[str]:
    """The threads of watches."""
    return [one.name for one in threading.enumerate() if one.name.startswith("gpu-aug-watch")]


class TestFetchThatHangs:
    def test_message(self, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
        """Stage, keys, file and stacks are said once, and that it is over once."""
        is_said = threading.Event()
        hold_up = hang_at(0, lambda: is_said.wait(60))
        data = Repeated(open_dataset(folder), 40, hold_up, "/data/train-000017.tar")
        with once_said("for batch 0 ", is_said.set):
            assert len(list(load(data))) == 10
        [stall] = [text for text in said(caplog) if "sample 0" in text]
        over = said(caplog)[said(caplog).index(stall) + 1]
        assert re.match(
            r"the training loop \(.*, process \d+\) has waited \d s for batch 0 of epoch 0 .*"
            r"\(longest at work: read /data/train-000017.tar, .*; nothing has moved for \d s\n",
            stall,
        )
        for words in (
            r"gpu-aug_0: read for [\d.]+ s: step 0: sample 0, sample 1, sample 2 and 1 more, at /data/train-000017.tar",
            r"Where they are:(.|\n)*gpu-aug_0:\n(.|\n)*slow_datasets.py:\d+ hang_at",
        ):
            assert re.search(words, stall)
        assert re.search(r"has got its batch, and goes on, after \d s$", over)

    def test_loop_that_is_left(self, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
        """Where the batch never comes that is said as well."""
        is_said = threading.Event()

        def fail() -> None:
            is_said.wait(60)
            raise ArithmeticError

        with once_said("for batch 0 ", is_said.set), pytest.raises(ArithmeticError):
            list(load(Repeated(open_dataset(folder), 40, hang_at(0, fail))))
        assert re.search(r"has ended its loop without it, after \d s$", said(caplog)[-1])

    def test_slow_is_told_from_standing_still(
        self, folder: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Where calls of stages end meanwhile that is said, with how many."""
        is_said = threading.Event()
        data = Repeated(open_dataset(folder), 12, lambda _: is_said.wait(0.25))
        with once_said("for batch 0 ", is_said.set):
            list(load(data, batch_size=1, prefetch=11))
        [stall] = [text for text in said(caplog) if "for batch 0 " in text]
        assert re.search(r"it goes on, slowly: calls that have ended are \d of read", stall)

    def test_remote_file(
        self,
        tmp_path: Path,
        jpeg: Callable[..., bytes],
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """Of a request that is open the URL is said, and the bytes that were asked for."""
        pytest.importorskip("obstore")
        write_shards(tmp_path / "served", jpeg, num=1)
        set_up(monkeypatch, tmp_path)
        configure(cache_bytes=0)
        with storage(tmp_path / "served") as server:
            url = f"{server.url}/train-000.tar"
            data = open_dataset(url)
            server.faults(delay=60)
            with once_said(url, server.faults):
                list(load(data))
        configure(cache_bytes=None)
        stall = next(text for text in said(caplog) if url in text)
        assert f"read {url}, " in stall.splitlines()[0]
        assert re.search(rf"at {re.escape(url)} bytes \d+ to \d+", stall)


@pytest.mark.long
def test_helper_process(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The helper process is asked what its threads do."""
    data = Repeated(open_dataset(folder), 24, HangAt(), "/data/train-000017.tar")
    loader = load(data, helper_process=True)
    list(loader)
    loader.close()
    stall = next(text for text in said(caplog) if "sample 12" in text)
    here, there = stall.split("In the helper process:\n")
    assert "MainThread (the training loop): waits" in here
    assert re.search(r"gpu-aug_0: read for .* step 3: sample 12.*at /data/train-000017.tar", there)
    assert "HangAt.__call__" in there


class HangAt:
    """Holds up the fetch of sample 12; it can be pickled."""

    def __call__(self, indices: list[int]) -> None:
        """Hold up one fetch."""
        if 12 in indices:
            time.sleep(6)


class TestThreads:
    @pytest.mark.parametrize("how", ["end", "close", "drop"])
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
        batches = iter(load(open_dataset(folder), heartbeat=None))
        next(batches)
        assert watches() == []
        with pytest.raises(LoaderError, match="heartbeat=7 is not known"):
            load(open_dataset(folder), heartbeat=7)

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
        within(10, lambda: [file_at(one.frame) for one in loader_threads(main)], [])
        return weakref.ref(thing)

    main = threading.get_ident()
    gc.disable()
    try:
        assert look()() is None
        assert look_from_elsewhere()() is None
    finally:
        gc.enable()


class TestDaemon:
    def test_error(self, caplog: pytest.LogCaptureFixture) -> None:
        """A watch that fails is spoken of, and the loop goes on."""

        def fail(is_last: bool) -> None:
            raise ArithmeticError(is_last)

        daemon = Daemon("gpu-aug-watch", 0.01, fail)
        daemon.join(10)
        assert "the loop goes on" in said(caplog)[0]

    def test_end_while_it_hangs(self) -> None:
        """What hangs is not waited for."""
        ended = threading.Event()
        daemon = Daemon("gpu-aug-watch", 0.01, lambda _: bool(ended.wait(60)))
        time.sleep(0.1)
        daemon.end()
        daemon.join(0.2)
        assert watches() == ["gpu-aug-watch"]
        ended.set()
        daemon.join(10)

    def test_within(self) -> None:
        """Who does not answer in time, or fails, gives the other answer."""
        ended = threading.Event()
        assert (within(5, lambda: 1, 2), within(0.05, lambda: ended.wait(60), 2)) == (1, 2)
        assert within(5, lambda: 1 // 0, 2) == 2
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
        speak("one")
        logging.getLogger("gpu_aug").addHandler(logging.NullHandler())
        speak("two")
        assert capsys.readouterr().err == "one\ntwo\n"

    def test_handlers_and_levels(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whoever has a handler, or wants no warnings, decides."""
        take_handlers_away(monkeypatch)
        logger, stream = logging.getLogger("gpu_aug"), io.StringIO()
        logger.addHandler(logging.StreamHandler(stream))
        speak("one")
        logger.setLevel(logging.ERROR)
        speak("two")
        logger.setLevel(logging.NOTSET)
        assert (stream.getvalue(), capsys.readouterr().err) == ("one\n", "")
