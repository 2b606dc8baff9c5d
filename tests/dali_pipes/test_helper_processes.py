"""Several helper processes make the batches of one, in the same order, and share the memory of the dataset."""

import itertools
import os
import re
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dali_pipes import Loader, LoaderError
from dali_pipes.pipeline import helper_choice, helper_client
from dali_pipes.pipeline.helper_client import Helper, HelperPool
from dali_pipes.pipeline.job import Reply
from dali_pipes.stats.counts import Counts
from gpu_aug import CutMix, HorizontalFlip, Normalize, RandomResizedCrop, Recipe, Views
from gpu_aug.compiled.clock import clock
from readers import Dataset, ReadersError, open_dataset
from tests.support.loaders import loader_maker
from tests.support.same_batches import assert_same
from tests.support.small import SmallDataset
from tests.support.streams import write_shards

NUM_IMAGES = 22
MIXING = Views(
    [
        Recipe(
            [RandomResizedCrop(24), HorizontalFlip(), CutMix(p=0.8, num_classes=2), Normalize()]
        ),
        Recipe([RandomResizedCrop((16, 20)), Normalize()]),
    ]
)
NUM_SHARED_BYTES = 8 << 22


class WithIndex:
    """A dataset with an array of 32 MiB that every fetch reads; one sample can be read once by a process."""

    class_names = ()
    fingerprint = "with index"

    def __init__(self, inner: Dataset, once: int = -1) -> None:
        self.inner, self.once, self.reads = inner, once, 0
        self.index = np.arange(NUM_SHARED_BYTES // 8)

    def __len__(self) -> int:
        return len(self.inner)

    def fetch(self, indices: Any) -> list[Any]:
        """Read the whole array, then the samples."""
        assert self.index.sum() > 0
        self.reads += self.once in indices
        if self.reads > 1:
            raise ReadersError("the store is away")
        return self.inner.fetch(indices)


@pytest.fixture(scope="module")
def dataset(jpeg: Callable[..., bytes]) -> Dataset:
    """22 images and an index."""
    images = [jpeg(40 + number, 70 - number, seed=number) for number in range(NUM_IMAGES)]
    return WithIndex(SmallDataset(images, [number % 2 for number in range(NUM_IMAGES)]))


@pytest.fixture
def cores(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets the number of cores."""
    return lambda count: monkeypatch.setattr(helper_choice, "cores_of_rank", lambda: count)


load = loader_maker(
    MIXING, num_threads=3, targets=[], last_batch="partial", seed=3, helper_process="auto"
)


def processes(loader: Loader) -> list[subprocess.Popen[bytes]]:
    """Those that are kept for the next loop, or serve the one under way."""
    pool = loader._production._kept
    if pool is None:
        pool = loader._epochs.live().gi_frame.f_locals["producer"].reusable  # type: ignore[union-attr]
    return [helper.process for helper in pool.helpers]


def shared_mapping(pid: int) -> tuple[str, int]:
    """The inode of the mapping that has the index, and how many of its bytes the process has for itself."""
    for block in re.split(r"\n(?=[0-9a-f]+-[0-9a-f]+ )", Path(f"/proc/{pid}/smaps").read_text()):
        low, high = (int(text, 16) for text in block.split()[0].split("-"))
        if "memfd:gpu-aug" in block and high - low >= NUM_SHARED_BYTES:
            written = re.findall(r"Private_Dirty: *(\d+) kB", block) + re.findall(
                r"Anonymous: *(\d+) kB", block
            )
            return block.split()[4], sum(map(int, written)) * 1024
    raise AssertionError("the index is in no shared memory")


def test_three_processes(dataset: Dataset) -> None:
    """Two epochs are those of threads to the bit, work and threads of all count, and one that is killed is told of."""
    threads = load(dataset, helper_process=0)
    # Of six steps, four are made or under way when a process is killed.
    with load(dataset, helper_process=3, prefetch=1) as loader:
        first, second = list(loader), list(loader)
        stats = loader.stats()
        started = processes(loader)
        assert len({process.pid for process in started}) == 3

        inodes, num_bytes = zip(*(shared_mapping(process.pid) for process in started), strict=True)
        assert len(set(inodes)) == 1
        assert max(num_bytes) < NUM_SHARED_BYTES // 100

        batches = iter(loader)
        next(batches)
        assert processes(loader) == started
        os.kill(started[1].pid, signal.SIGKILL)
        with pytest.raises(
            LoaderError, match=f"helper process {started[1].pid} .* by signal SIGKILL"
        ):
            list(batches)
        assert None not in [process.poll() for process in started]
    assert_same(first, list(threads))
    assert_same(second, list(threads))
    usual = threads.stats()
    for name in ("read", "header", "draw", "decode", "augment", "hand_over"):
        theirs, mine = stats.stages[name], usual.stages[name]
        assert (theirs.samples, theirs.bytes) == (mine.samples, mine.bytes), name
    assert stats.stages["transfer"].samples > 0 == usual.stages["transfer"].samples
    assert (stats.steps, stats.samples, stats.num_threads) == (usual.steps, usual.samples, 3)


def test_two_processes(dataset: WithIndex) -> None:
    """A state is continued on another number of them, and an error comes in its turn, after the batches before it."""
    interrupted = load(dataset, helper_process=0, shuffle="none")
    had = list(itertools.islice(interrupted, 2))
    # Row 13 is in the second step that is left, and in the fourth one of an epoch: the second process makes both.
    with load(WithIndex(dataset.inner, once=13), helper_process=2, shuffle="none") as loader:
        loader.load_state_dict(interrupted.state_dict())
        had += loader
        pool = loader._production._kept
        account = pool.account(0.0)
        assert re.search(r"In helper process 1 of 2:\n.*\nIn helper process 2 of 2:\n", account)
        batches = iter(loader)
        following = list(itertools.islice(batches, 3))
        with pytest.raises(ReadersError, match="the store is away") as caught:
            next(batches)
        assert "in fetch" in caught.value.__notes__[0]
        assert None not in [helper.process.poll() for helper in pool.helpers]
        assert loader.state_dict()["consumed"] == 12
    threads = load(dataset, helper_process=0, shuffle="none")
    assert_same(had, list(threads))
    assert_same(following, list(threads)[:3])


def test_one_that_cannot_be_started(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others end, and nothing of their memory stays."""
    start = helper_client._start
    started: list[Any] = []

    def second_fails(*arguments: Any) -> Any:
        if started:
            raise OSError("no more processes")
        started.append(start(*arguments))
        return started[0]

    monkeypatch.setattr(helper_client, "_start", second_fails)
    before = set(map(os.readlink, _descriptors()))
    with pytest.raises(OSError, match="no more processes"):
        next(iter(load(dataset, helper_process=2)))
    assert started[0].returncode == -signal.SIGKILL
    assert set(map(os.readlink, _descriptors())) <= before


def _descriptors() -> list[str]:
    return [path for path in map(str, Path("/proc/self/fd").iterdir()) if os.path.lexists(path)]


def test_compiling_counts_once() -> None:
    """Two processes that compile at the same time stop the clock for as long as one of them."""
    ends = [Pipe() for _ in range(2)]
    pool: Any = SimpleNamespace(helpers=[], _left_out=0.0)
    for connection, _ in ends:
        helper = Helper.__new__(Helper)
        helper.connection, helper.is_over = connection, False
        helper.replies = deque()
        pool.helpers.append(helper)
    pool._of = lambda step: pool.helpers[step % 2]

    def compile_both() -> None:
        for _, theirs in ends:
            time.sleep(0.2)
            theirs.send(Reply(0, Counts(), 0.0, left_out=0.2))

    before, thread = clock.left_out, threading.Thread(target=compile_both)
    thread.start()
    assert HelperPool.ready(pool, [0, 1]) == 0
    for step in range(2):
        HelperPool.receive(pool, step)
    thread.join()
    assert clock.left_out - before == pytest.approx(0.2, abs=0.01)
    ends[1][1].send(Reply(0, Counts(), 0.0))
    assert HelperPool.ready(pool, [2, 3]) == 0  # the second step is there, and the first is not
    ends[0][1].send(Reply(0, Counts(), 0.0))
    assert HelperPool.ready(pool, [2, 3]) == 2


@pytest.mark.parametrize(
    ("asked", "num_threads", "count", "each"),
    [
        ("auto", 65, 4, 16),  # on 64 cores
        ("auto", 16, 0, 16),
        ("auto", 17, 2, 8),
        ("auto", 64, 4, 16),
        (True, 2, 1, 2),
        (True, 40, 3, 13),
        (np.True_, 40, 3, 13),
        (1, 40, 1, 40),
        (np.int64(5), 3, 5, 1),
        (False, 64, 0, 64),
        (0, 64, 0, 64),
    ],
)
def test_choice(
    dataset: Dataset,
    asked: Any,
    num_threads: int,
    count: int,
    each: int,
    cores: Callable[[int], None],
) -> None:
    """One process for every 16 cores, where that is left to the loader; the threads are divided among them."""
    cores(64)
    loader = load(dataset, helper_process=asked, num_threads=num_threads)
    setup = loader._setup
    assert (setup.helpers.count, setup.num_threads) == (count, each)
    assert setup.threads_of_all == each * max(count, 1)
    lines = loader.explain().splitlines()
    several = f"threads: {each * count}, {each} in each of {count} helper processes, prefetch: auto in each"
    one = f"threads: {each}, all in one helper process, prefetch: auto"
    none = f"threads: {each}, prefetch: auto"
    assert (none if not count else one if count == 1 else several) in lines
    assert ("helper processes: " in loader.explain()) == (asked == "auto")


def test_more_threads_than_cores(dataset: Dataset, cores: Callable[[int], None]) -> None:
    """Threads that wait for storage need no processes."""
    cores(8)
    explained = load(dataset, num_threads=64).explain()
    assert "helper processes: none, up to 16 cores one process is enough" in explained
    assert load(dataset, helper_process=True, num_threads=64)._setup.helpers.count == 1


def of_the_script() -> None:
    """Stands for a function of the script that is run."""


def test_why_auto_starts_none(
    dataset: WithIndex,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    cores: Callable[[int], None],
) -> None:
    """What cannot be sent, and a process that may have no children, keep to threads, and `explain` says so."""

    def said(data: Any = dataset, **options: Any) -> str:
        explained = load(data, num_threads=64, **options).explain()
        assert "threads: 64, prefetch: auto" in explained
        return explained.partition("helper processes: none, ")[2]

    cores(64)
    start = "though there are 64 cores, because "
    unpicklable = WithIndex(dataset.inner)
    unpicklable.lock = threading.Lock()  # type: ignore[attr-defined]
    assert said(unpicklable).startswith(f"{start}dataset or recipe cannot be pickled (TypeError: ")
    monkeypatch.setattr(of_the_script, "__module__", "__main__")
    monkeypatch.setattr(
        __import__("sys").modules["__main__"], "of_the_script", of_the_script, raising=False
    )
    unpicklable.lock = of_the_script  # type: ignore[attr-defined]
    assert "of the script itself" in said(unpicklable)
    stream = open_dataset(write_shards(tmp_path, [9, 9]), format="stream")
    assert "one process reads a stream" in said(
        stream, recipe=Recipe([RandomResizedCrop(8)]), shuffle="none"
    )
    monkeypatch.setattr("multiprocessing.current_process", lambda: SimpleNamespace(daemon=True))
    assert "this process is a daemon" in said()


def test_a_stream_has_one(tmp_path: Path, cores: Callable[[int], None]) -> None:
    """Several are refused with what to do, and True is one."""
    cores(64)
    stream = open_dataset(write_shards(tmp_path, [9, 9]), format="stream")
    options: dict[str, Any] = {
        "recipe": Recipe([RandomResizedCrop(8)]),
        "num_threads": 64,
        "shuffle": "none",
    }
    assert load(stream, helper_process=True, **options)._setup.helpers.count == 1
    with pytest.raises(LoaderError, match=r"helper_process=2 is not allowed for a stream.*True"):
        load(stream, helper_process=2, **options)


@pytest.mark.parametrize("value", ["yes", -1, 1.5, None, [2]])
def test_what_is_no_number_of_them(dataset: Dataset, value: Any) -> None:
    """The error says what was given and what is allowed."""
    with pytest.raises(LoaderError, match=r'is not allowed; give "auto", True, False, or a number'):
        load(dataset, helper_process=value)
