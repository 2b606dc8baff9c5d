"""Helper processes, one or several: the batches of threads in the same order, words for what goes wrong, and nothing left behind."""

import gc
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from dali_pipes import BadSampleError, Execution, ImageOptions, Loader, LoaderError, Monitoring
from dali_pipes.arguments import helper_choice
from dali_pipes.monitoring.counts import Counts
from dali_pipes.monitoring.recorder import Recorder
from dali_pipes.stages import helper_pool
from dali_pipes.stages.helper_pool import Helper, HelperPool
from dali_pipes.stages.job import Report
from dali_pipes.stages.remote_production import portable
from dali_pipes.stages.shared_batch import RemoteBatchSource
from gpu_aug import (
    ColorJitter,
    CutMix,
    HorizontalFlip,
    Normalize,
    RandomResizedCrop,
    Recipe,
    Views,
)
from gpu_aug.compiled.clock import clock
from readers import Dataset, ReadersError, open_dataset
from readers.plural import counted
from tests.support.loaders import loader_maker
from tests.support.processes import is_gone
from tests.support.same_batches import assert_same
from tests.support.small import SmallDataset
from tests.support.streams import write_shards
from tests.support.tars import write_samples

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
    MIXING,
    num_threads=3,
    images=ImageOptions(targets=[]),
    last_batch="partial",
    seed=3,
    execution=Execution(helper_process="auto"),
)


def processes(loader: Loader) -> list[subprocess.Popen[bytes]]:
    """Those that are kept for the next loop, or serve the one under way."""
    pool = loader._production._kept
    if pool is None:
        pool = loader._epochs.running_loop().gi_frame.f_locals["source"].reusable  # type: ignore[union-attr]
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


def test_a_process_that_is_killed(dataset: Dataset) -> None:
    """Two epochs are those of threads to the bit, work and threads of all count, and one that is killed is told of."""
    threads = load(dataset, execution=Execution(helper_process=0))
    # Of six steps, three are made or under way when a process is killed.
    with load(dataset, execution=Execution(helper_process=2, prefetch=1), num_threads=4) as loader:
        first, second = list(loader), list(loader)
        stats = loader.stats()
        started = processes(loader)
        assert len({process.pid for process in started}) == 2

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
    views = [view for batch in first for view in batch.views]
    assert {view.data_ptr() % 64 for view in views} == {0}  # where JAX takes them without a copy
    usual = threads.stats()
    for name in ("read", "header", "draw", "decode", "augment", "hand_over"):
        theirs, mine = stats.stages[name], usual.stages[name]
        assert (theirs.samples, theirs.bytes) == (mine.samples, mine.bytes), name
    assert stats.stages["transfer"].samples > 0 == usual.stages["transfer"].samples
    assert (stats.steps, stats.samples, stats.num_threads) == (usual.steps, usual.samples, 4)


def test_two_processes(dataset: WithIndex) -> None:
    """A state is continued on another number of them, and an error comes in its turn, after the batches before it."""
    interrupted = load(dataset, execution=Execution(helper_process=0), shuffle="none")
    had = list(itertools.islice(interrupted, 2))
    # Row 13 is in the second step that is left, and in the fourth one of an epoch: the second process makes both.
    with load(
        WithIndex(dataset.inner, once=13), execution=Execution(helper_process=2), shuffle="none"
    ) as loader:
        loader.load_state_dict(interrupted.state_dict())
        had += loader
        pool = loader._production._kept
        account = pool.describe_remote_threads(0.0)
        assert re.search(r"In helper process 1 of 2:\n.*\nIn helper process 2 of 2:\n", account)
        batches = iter(loader)
        following = list(itertools.islice(batches, 3))
        with pytest.raises(ReadersError, match="the store is away") as caught:
            next(batches)
        step, trace = caught.value.__notes__
        assert step == "raised while making step 3 of epoch 1"
        assert "in fetch" in trace
        assert None not in [helper.process.poll() for helper in pool.helpers]
        assert loader.state_dict()["consumed"] == 12
    threads = load(dataset, execution=Execution(helper_process=0), shuffle="none")
    assert_same(had, list(threads))
    assert_same(following, list(threads)[:3])


def test_one_that_cannot_be_started(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others end, and nothing of their memory stays."""
    start = helper_pool._start
    started: list[Any] = []

    def second_fails(*arguments: Any) -> Any:
        if started:
            raise OSError("no more processes")
        started.append(start(*arguments))
        return started[0]

    monkeypatch.setattr(helper_pool, "_start", second_fails)
    before = set(map(os.readlink, _descriptors()))
    with pytest.raises(OSError, match="no more processes"):
        next(iter(load(dataset, execution=Execution(helper_process=2))))
    assert started[0].returncode == -signal.SIGKILL
    assert set(map(os.readlink, _descriptors())) <= before


def _descriptors() -> list[str]:
    return [path for path in map(str, Path("/proc/self/fd").iterdir()) if os.path.lexists(path)]


def test_compiling_counts_once() -> None:
    """Two processes that compile at the same time stop the clock for as long as one of them."""
    ends = [Pipe() for _ in range(2)]
    pool = HelperPool.__new__(HelperPool)
    pool.helpers, pool.capacity, pool.left_out = [], 2, 0.0
    pool._ring = SimpleNamespace(read_metadata=lambda *_: b"")  # type: ignore[assignment]
    for connection, _ in ends:
        helper = Helper.__new__(Helper)
        helper.connection, helper.is_over, helper.steps = connection, False, {}
        pool.helpers.append(helper)
    engines: Any = SimpleNamespace(recorder=Recorder(), device=torch.device("cpu"))
    source = RemoteBatchSource(pool, [engines])
    source._under_way.extend([0, 1])

    def report(step: int) -> tuple[int, int, Report]:
        return step, 0, Report(Counts(), 0.0, ReadersError("no step"), left_out=0.2)

    def compile_both() -> None:
        for step, (_, theirs) in enumerate(ends):
            time.sleep(0.2)
            theirs.send(report(step))

    before, thread = clock.left_out, threading.Thread(target=compile_both)
    thread.start()
    assert source.ready() == 0
    for _ in range(2):
        with pytest.raises(ReadersError, match="no step"):
            source.take()
    thread.join()
    assert clock.left_out - before == pytest.approx(0.2, abs=0.01)
    source._under_way.extend([2, 3])
    ends[1][1].send(report(3))
    assert source.ready() == 0  # the second step has arrived, and the first has not
    ends[0][1].send(report(2))
    assert source.ready() == 2


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
    loader = load(dataset, execution=Execution(helper_process=asked), num_threads=num_threads)
    setup = loader._setup
    assert (setup.helpers.count, setup.num_threads) == (count, each)
    assert setup.threads_of_all == each * max(count, 1)
    lines = loader.explain().splitlines()
    where = f" in {counted(count, 'helper process')}" if count else ""
    assert f"threads: {each * max(count, 1)}{where}, prefetch: auto" in lines
    assert ("helper processes: " in loader.explain()) == (asked == "auto")


def test_more_threads_than_cores(dataset: Dataset, cores: Callable[[int], None]) -> None:
    """Threads that wait for storage need no processes."""
    cores(8)
    explained = load(dataset, num_threads=64).explain()
    assert "helper processes: none, up to 16 cores one process is enough" in explained
    assert (
        load(dataset, execution=Execution(helper_process=True), num_threads=64)._setup.helpers.count
        == 1
    )


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
    unpicklable.lock = threading.Lock()
    assert said(unpicklable).startswith(f"{start}dataset or recipe cannot be pickled (TypeError: ")
    monkeypatch.setattr(of_the_script, "__module__", "__main__")
    monkeypatch.setattr(sys.modules["__main__"], "of_the_script", of_the_script, raising=False)
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
    assert (
        load(stream, execution=Execution(helper_process=True), **options)._setup.helpers.count == 1
    )
    with pytest.raises(LoaderError, match=r"helper_process=2 is not allowed for a stream.*True"):
        load(stream, execution=Execution(helper_process=2), **options)


@pytest.mark.parametrize("value", ["yes", -1, 1.5, None, [2]])
def test_what_is_no_number_of_them(dataset: Dataset, value: Any) -> None:
    """The error says what was given and what is allowed."""
    with pytest.raises(LoaderError, match=r'is not allowed; give "auto", True, False, or a number'):
        load(dataset, execution=Execution(helper_process=value))


PLAIN = Recipe([RandomResizedCrop(24), HorizontalFlip(), ColorJitter(0.4, 0.4, 0.4), Normalize()])
MOVING = Recipe([RandomResizedCrop(24), HorizontalFlip()])

# A loop that says which processes are under way, then does what it is told.
LOOP = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background process may ignore it
from dali_pipes import Execution, Loader
from gpu_aug import RandomResizedCrop, Recipe
from readers import open_dataset

loader = Loader(open_dataset(sys.argv[1]), Recipe([RandomResizedCrop(24)]), batch_size=2,
                device="cpu", decoder="cpu", num_threads=1, execution=Execution(helper_process=2))
for batch in loader:
    pool = loader._epochs.running_loop().gi_frame.f_locals["source"].reusable
    print(*(helper.process.pid for helper in pool.helpers), flush=True)
    exec(sys.argv[2])
"""


class PeculiarError(Exception):
    """Cannot be pickled and made anew: it wants two arguments."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} and {two}")


class WithLock(SmallDataset):
    """Cannot be pickled."""

    def __init__(self) -> None:
        super().__init__([b""], [0])
        self.lock = threading.Lock()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, jpeg: Callable[..., bytes]) -> Path:
    """Two classes with 22 images, each with boxes and a mask."""
    root = tmp_path_factory.mktemp("classes")
    for number in range(NUM_IMAGES):
        place = root / f"class{number % 2}"
        place.mkdir(exist_ok=True)
        (place / f"{number:02d}.jpg").write_bytes(jpeg(40 + number, 70 - number, seed=number))
        boxes = {"boxes": [[2, 3, 20, 30 + number]], "labels": [number]}
        (place / f"{number:02d}.json").write_text(json.dumps(boxes))
        mask = np.full((40 + number, 70 - number), number, np.uint8)
        Image.fromarray(mask).save(place / f"{number:02d}.mask.png")
    return root


@pytest.fixture(scope="module")
def photos_on_disk(folder: Path) -> Dataset:
    """The 22 images."""
    return open_dataset(folder)


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory, jpeg: Callable[..., bytes]) -> Dataset:
    """Twelve images, one without an image's header and one cut short."""
    root = tmp_path_factory.mktemp("faulty")
    for number in range(12):
        data = jpeg(50, 60, seed=number)
        data = {5: b"<html>", 7: data[: len(data) // 2]}.get(number, data)
        (root / f"{number:02d}.jpg").write_bytes(data)
    return open_dataset(root)


load_one = loader_maker(
    PLAIN,
    dtype=torch.float32,
    seed=3,
    last_batch="partial",
    num_threads=2,
    images=ImageOptions(targets=[]),
    execution=Execution(helper_process=True),
)


def pid_of(loader: Loader) -> int:
    """The process that is kept for the next loop, or serves the one under way."""
    return processes(loader)[0].pid


class TestSameBatches:
    @pytest.mark.long
    def test_targets(self, photos_on_disk: Dataset) -> None:
        """Boxes and masks come over, and images of another dtype and memory format."""
        options = {
            "images": ImageOptions(targets="auto"),
            "dtype": torch.bfloat16,
        }
        helper = Execution(channels_last=False, helper_process=True)
        with load_one(photos_on_disk, MOVING, **options, execution=helper) as loader:
            batches = list(loader)

        assert None not in (batches[0].boxes, batches[0].masks)
        assert_same(
            batches,
            list(
                load_one(
                    photos_on_disk,
                    MOVING,
                    **options,
                    execution=replace(helper, helper_process=False),
                )
            ),
        )

    @pytest.mark.long
    def test_shard_on_two_ranks(self, folder: Path, tmp_path: Path) -> None:
        """A tar shard, whose maps stay here, is opened anew in the helper; a rank may have no sample."""
        samples = {path.stem: {"jpg": path.read_bytes()} for path in sorted(folder.rglob("*.jpg"))}
        shard = open_dataset(write_samples(tmp_path / "shard.tar", samples))
        options = {"batch_size": 7, "rank": 0, "world_size": 3}  # 22 = 21 + 1
        helper = Execution(decode="fast", helper_process=True)
        with load_one(shard, **options, execution=helper) as loader:
            batches = list(loader)

        assert sorted(len(batch) for batch in batches) in ([0, 7], [1, 7])
        assert_same(
            batches,
            list(load_one(shard, **options, execution=replace(helper, helper_process=False))),
        )


class TestBadSamples:
    @pytest.mark.parametrize("policy", ["replace", pytest.param("skip", marks=pytest.mark.long)])
    def test_same_as_with_threads(self, faulty: Dataset, policy: str, tmp_path: Path) -> None:
        """Substitutes, gaps and the ledger's lines are those of threads; the process ends, and leaves nothing.

        Losses refuse that labels are missing.
        """

        def held() -> set[object]:
            gc.collect()
            return {*map(os.readlink, _descriptors()), *threading.enumerate()}

        files = [tmp_path / "helper", tmp_path / "threads"]
        options = {"on_bad_sample": policy, "recipe": MOVING, "max_bad_samples": 9}
        torch.zeros(1 << 20).add_(1)  # starts torch's own threads
        before = held()
        with load_one(faulty, monitoring=Monitoring(ledger=files[0]), **options) as loader:
            batches = list(loader)
            pid = pid_of(loader)
            assert not is_gone(pid)
        assert is_gone(pid)
        assert not held() - before
        threads = load_one(
            faulty,
            monitoring=Monitoring(ledger=files[1]),
            **options,
            execution=Execution(helper_process=False),
        )

        assert_same(batches, list(threads))
        assert {record.index for record in loader.bad_samples} >= {5, 7}
        assert loader.bad_samples == threads.bad_samples
        with pytest.raises(LoaderError, match="4 of 4 labels of the batch are -1"):
            torch.nn.functional.cross_entropy(torch.zeros(4, 3), batches[0].labels)
        assert files[0].read_text() == files[1].read_text()

    @pytest.mark.long
    def test_raise(self, faulty: Dataset) -> None:
        """The batch with a bad sample stops the loop, the ones before it are handed over."""
        loader = load_one(faulty, shuffle="none")
        batches = iter(loader)
        next(batches)
        pid = pid_of(loader)
        with pytest.raises(BadSampleError, match=r"sample 5 \(.*05.jpg\) is bad \(header"):
            next(batches)
        assert is_gone(pid)


class TestErrors:
    def test_that_cannot_be_pickled(self) -> None:
        """An error that cannot be made anew arrives as a RuntimeError with its name and text."""
        error = portable(PeculiarError("one", "two"), "elsewhere")
        assert type(error) is RuntimeError
        assert str(error) == "PeculiarError: one and two"

    def test_cannot_be_pickled(self) -> None:
        """A dataset with a lock is refused when the loader is made, with what to do."""
        with pytest.raises(LoaderError, match=r"can be pickled, but dataset cannot .*lock.*leave"):
            load_one(WithLock())

    @pytest.mark.long
    def test_of_the_script_itself(
        self, monkeypatch: pytest.MonkeyPatch, jpeg: Callable[..., bytes]
    ) -> None:
        """A class of the script that is run, which the helper cannot import, is named with what to do."""
        kind = type("Mine", (SmallDataset,), {"__module__": "__main__"})
        monkeypatch.setattr(sys.modules["__main__"], "Mine", kind, raising=False)
        with pytest.raises(LoaderError, match=r"'Mine'.* in a module that can be imported"):
            list(load_one(kind([jpeg(8, 8)] * 4, [0] * 4)))

    @pytest.mark.needs_dali
    def test_dali(self, photos_on_disk: Dataset) -> None:
        """With DALI there is no helper process, and the error says what is allowed."""
        with pytest.raises(LoaderError, match=r'with decoder="dali"; use decoder="cpu"'):
            load_one(photos_on_disk, decoder="dali")


class TestRelease:
    @pytest.mark.long
    def test_loop_left_early(self, photos_on_disk: Dataset) -> None:
        """Dropping the iterator, or the loader after a whole epoch, ends the process; a look at a batch starts it."""
        loader = load_one(photos_on_disk)
        seen = loader.peek()
        pid = pid_of(loader)
        batches = iter(loader)
        assert torch.equal(next(batches).images, seen.images)
        next(batches)
        assert pid_of(loader) == pid
        del batches
        gc.collect()
        assert is_gone(pid)
        list(loader)
        pid = pid_of(loader)
        assert not is_gone(pid)
        del loader
        gc.collect()
        assert is_gone(pid)

    @pytest.mark.long
    def test_end_of_the_training_process(self, folder: Path) -> None:
        """However the training process ends, its helpers end with it, silently."""
        ends = {
            "sys.exit(3)": 3,
            "os.kill(os.getpid(), signal.SIGKILL)": -signal.SIGKILL,
            "os.killpg(0, signal.SIGINT)": -signal.SIGINT,  # Ctrl-C at a terminal
        }
        started = [
            subprocess.Popen(
                [sys.executable, "-c", LOOP, str(folder), statement],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            for statement in ends
        ]
        for process, code in zip(started, ends.values(), strict=True):
            with process:
                out, errors = process.communicate(timeout=120)
                pids = [int(pid) for pid in out.splitlines()[0].split()]
                assert len(pids) == 2
                try:
                    assert process.returncode == code, errors
                    assert all(is_gone(pid, wait_seconds=60) for pid in pids)
                    assert errors.count("Traceback") == (code == -signal.SIGINT)
                finally:
                    for pid in pids:
                        with suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGKILL)


@pytest.mark.needs_cuda
def test_on_a_gpu(photos_on_disk: Dataset) -> None:
    """The helper draws the canvases, the GPU augments them: the batches of threads."""
    with load_one(photos_on_disk, MIXING, device="cuda") as loader:
        batches = list(loader)
    assert_same(
        batches,
        list(
            load_one(
                photos_on_disk, MIXING, device="cuda", execution=Execution(helper_process=False)
            )
        ),
    )
