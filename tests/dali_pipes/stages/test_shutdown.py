"""Threads and pipelines are given back whatever ends a loop, and nothing hangs."""

import gc
import itertools
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch

from dali_pipes import Monitoring
from dali_pipes.stages.augment import Engines
from dali_pipes.stages.endings import wait_for_ends
from dali_pipes.stages.pipeline import Pipeline
from dali_pipes.stages.threads import single_threaded_pool
from gpu_aug import RandomResizedCrop, Recipe
from readers import Dataset, open_dataset
from tests.support.loaders import loader_maker
from tests.support.same_batches import assert_same

DALI = pytest.param("dali", marks=pytest.mark.needs_dali)
DECODERS = ["cpu", DALI]
DALI_IF_LONG = ["cpu", pytest.param("dali", marks=[pytest.mark.needs_dali, pytest.mark.long])]
CPU_IF_LONG = [pytest.param("cpu", marks=pytest.mark.long), DALI]

# A loop over a folder, in which a statement ends the process.
LOOP = """
import sys
from dali_pipes import Loader
from gpu_aug import RandomResizedCrop, Recipe
from readers import open_dataset

recipe = Recipe([RandomResizedCrop(32)])
for batch in Loader(open_dataset(sys.argv[1]), recipe, batch_size=4, device="cpu", decoder=sys.argv[2]):
    exec(sys.argv[3])
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, jpeg: Callable[..., bytes]) -> Path:
    """Forty small images."""
    root = tmp_path_factory.mktemp("images")
    for number in range(40):
        (root / f"{number:02d}.jpg").write_bytes(jpeg(50, 60, seed=number))
    return root


@pytest.fixture
def dataset(folder: Path) -> Dataset:
    """The forty images."""
    return open_dataset(folder)


_OF_READERS = ("gpu-aug-files", "gpu-aug-request", "gpu-aug-ahead")


@pytest.fixture(autouse=True)
def _nothing_left_by_others() -> None:
    """Loops that other tests left behind end when they are collected."""
    collect()


def collect() -> None:
    """Collect garbage, and wait until the loops in it have ended."""
    gc.collect()
    wait_for_ends()


def our_threads() -> list[str]:
    """The threads of loaders; those of readers serve all datasets of a process, and last."""
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if "gpu-aug" in name and not name.startswith(_OF_READERS)]


load = loader_maker(Recipe([RandomResizedCrop(32)]))


@pytest.mark.parametrize("decoder", DECODERS)
class TestThreads:
    def test_loop_left_early(self, dataset: Dataset, decoder: str) -> None:
        """Dropping the iterator in the middle ends its threads, and the loader can be used again."""
        loader = load(dataset, decoder=decoder)
        for _ in range(2):
            assert len(list(itertools.islice(loader, 2))) == 2
            collect()
            assert not our_threads()
        assert len(list(loader)) == 10
        assert not our_threads()


@pytest.mark.parametrize("decoder", DALI_IF_LONG)
class TestLoopsThatEnd:
    def test_exception_in_the_loop(self, dataset: Dataset, decoder: str) -> None:
        """An exception in the training step ends the threads, once its traceback is gone."""

        def train() -> None:
            for _ in load(dataset, decoder=decoder):
                raise ArithmeticError

        with pytest.raises(ArithmeticError):
            train()
        collect()
        assert not our_threads()

    def test_close(self, dataset: Dataset, decoder: str) -> None:
        """Leaving the loader's context ends a loop that is under way."""
        with load(dataset, decoder=decoder) as loader:
            iterator = iter(loader)
            next(iterator)
            assert our_threads()
        assert (our_threads(), list(iterator)) == ([], [])

    def test_two_loops_at_once(self, dataset: Dataset, decoder: str) -> None:
        """A second loop over the same loader does not disturb the first one's batches."""
        loader = load(dataset, decoder=decoder)
        first = iter(loader)
        had = [next(first)]
        second = list(loader)
        had += first

        again = load(dataset, decoder=decoder)
        assert_same([*had, *second], [*again, *again])


@pytest.mark.long
@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("raise SystemExit(7)", 7),
        ("raise ArithmeticError", 1),
        ("sys.exit(0)", 0),
    ],
)
def test_process_ends(folder: Path, decoder: str, statement: str, code: int) -> None:
    """A process that leaves in the middle of an epoch ends at once, with its own exit code."""
    command = [sys.executable, "-c", LOOP, str(folder), decoder, statement]
    assert subprocess.run(command, capture_output=True, timeout=180).returncode == code


# Three endings in one process. First a loop that only the garbage collector can end is ended while the locks for
# starting threads are held, by the thread that collects, then Ctrl-C ends a loop, and an iterator is still held when the script ends.
ENDINGS = """
import concurrent.futures.thread as threads, gc, signal, sys, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background process may ignore it
from dali_pipes import Loader
from dali_pipes.stages import threads as ours
from dali_pipes.stages.fetch import Fetcher
from gpu_aug import RandomResizedCrop, Recipe
from readers import open_dataset

def load(decoder, **options):
    recipe = Recipe([RandomResizedCrop(32)])
    return Loader(open_dataset(sys.argv[1]), recipe, batch_size=4, device="cpu", decoder=decoder, **options)

fetch, is_first, is_left = Fetcher.fetch, iter([True]), threading.Event()

def fetch_late(*given):
    if not next(is_first, False):
        is_left.wait()
        time.sleep(0.5)
    return fetch(*given)  # then tasks are started, which takes the lock

def kept_pool(num_threads, make=ours.single_threaded_pool):
    pools.append(make(num_threads))
    return pools[-1]

pools, ours.single_threaded_pool = [], kept_pool
Fetcher.fetch = fetch_late
gc.disable()
cycle = [iter(load("auto", num_threads=16))]
next(cycle[0])
cycle.append(cycle)
del cycle
with pools[0]._shutdown_lock, threads._global_shutdown_lock:
    is_left.set()
    gc.collect()
for thread in pools[0]._threads:
    thread.join(60)
print("collected", [thread for thread in pools[0]._threads if thread.is_alive()], flush=True)
Fetcher.fetch = fetch
gc.enable()

batches = iter(load(sys.argv[2]))
next(batches)
try:
    while True:
        for batch in load(sys.argv[2]):
            print("under way", flush=True)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("decoder", CPU_IF_LONG)
def test_endings(folder: Path, decoder: str) -> None:
    """The collector waits for no thread, Ctrl-C ends a loop, and a script that still holds an iterator ends silently."""
    unlabelled = "ignore:no sample of:UserWarning"
    command = [sys.executable, "-W", unlabelled, "-c", ENDINGS, str(folder), decoder]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert [process.stdout.readline() for _ in range(2)] == [
                "collected []\n",
                "under way\n",
            ]
            process.send_signal(signal.SIGINT)
            printed, errors = process.communicate(timeout=120)  # else it hangs
        finally:
            process.kill()
    assert (process.returncode, printed.splitlines()[-1], errors) == (0, "interrupted", "")


def test_pool_keeps_torch_threads_as_they_are() -> None:
    """The pool's threads compute alone; the caller and threads started later keep their number."""
    usual = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        pool = single_threaded_pool(3)
        inside = [pool.submit(torch.get_num_threads).result() for _ in range(6)]
        with ThreadPoolExecutor(1) as later:
            assert later.submit(torch.get_num_threads).result() == 2
        pool.shutdown()
        assert (inside, torch.get_num_threads()) == ([1] * 6, 2)
    finally:
        torch.set_num_threads(usual)


def test_interrupt_while_threads_start_leaves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that have begun do not wait for those that never will, and so do not hold up Python's end."""
    submit, calls = ThreadPoolExecutor.submit, itertools.count()

    def interrupted(*given: Any) -> Any:
        if next(calls) == 2:
            raise KeyboardInterrupt
        return submit(*given)

    before = set(threading.enumerate())
    monkeypatch.setattr(ThreadPoolExecutor, "submit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        single_threaded_pool(3)
    gc.collect()

    for thread in set(threading.enumerate()) - before:
        thread.join(timeout=60)
        assert not thread.is_alive()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[weakref.ref[Any]]]:
    """The pipelines and the images of batches that are made in a test without the garbage collector."""
    found: list[weakref.ref[Any]] = []
    empty = Engines.empty

    def kept(*given: Any) -> Pipeline:
        pipeline = Pipeline(*given)
        found.append(weakref.ref(pipeline))
        return pipeline

    def emptied(engines: Engines, count: int) -> Any:
        images = empty(engines, count)
        found.extend(map(weakref.ref, images))
        return images

    monkeypatch.setattr("dali_pipes.stages.production.Pipeline", kept)
    monkeypatch.setattr(Engines, "empty", emptied)
    gc.disable()
    yield found
    gc.enable()


@pytest.mark.parametrize(
    ("how", "heartbeat"), [("drop", "auto"), ("drop", None), ("close", "auto"), ("raise", None)]
)
def test_memory(
    dataset: Dataset, made: list[weakref.ref[Any]], how: str, heartbeat: str | None
) -> None:
    """A loop that is left early gives back what it has prefetched at once, while its loader lives."""
    loader = load(dataset, num_threads=None, monitoring=Monitoring(heartbeat=heartbeat))

    def train() -> None:
        batches = iter(loader)
        next(batches)
        pipeline = made[0]()
        while not pipeline.ready():
            time.sleep(0.01)
        if how == "raise":
            raise ArithmeticError
        if how == "close":
            loader.close()

    with suppress(ArithmeticError):
        train()
    assert len(made) > 2
    assert [thing for one in made if (thing := one()) is not None] == []
