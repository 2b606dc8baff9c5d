"""A helper process makes the batches that threads make, says what goes wrong in it, and leaves nothing behind."""

import gc
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from dali_pipes import BadSampleError, Loader, LoaderError
from dali_pipes.pipeline.elsewhere import portable
from gpu_aug import (
    ColorJitter,
    CutMix,
    EngineError,
    HorizontalFlip,
    Normalize,
    RandomResizedCrop,
    Recipe,
    Resize,
)
from gpu_aug.ops.operation import Operation
from gpu_aug.views import Views
from readers import Dataset, open_dataset
from tests.support.loaders import loader_maker
from tests.support.same_batches import assert_same
from tests.support.small import SmallDataset
from tests.support.tars import write_samples

NUM_IMAGES = 22
PLAIN = Recipe([RandomResizedCrop(24), HorizontalFlip(), ColorJitter(0.4, 0.4, 0.4), Normalize()])
MIXING = Views(
    [
        Recipe([RandomResizedCrop(24), HorizontalFlip(), CutMix(p=0.8), Normalize()]),
        Recipe([RandomResizedCrop((16, 20)), Normalize()]),
    ]
)
MOVING = Recipe([RandomResizedCrop(24), HorizontalFlip()])

# A loop that says which processes are under way, then does what it is told.
LOOP = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background process may ignore it
from dali_pipes import Loader
from gpu_aug import RandomResizedCrop, Recipe
from readers import open_dataset

loader = Loader(open_dataset(sys.argv[1]), Recipe([RandomResizedCrop(24)]), batch_size=2,
                device="cpu", decoder="cpu", num_threads=1, helper_process=2)
for batch in loader:
    pool = loader._epochs.live().gi_frame.f_locals["producer"].reusable
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


class OnlyHere(Operation, abstract=True):
    """Known to no engine."""


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
def dataset(folder: Path) -> Dataset:
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


load = loader_maker(
    PLAIN,
    dtype=torch.float32,
    seed=3,
    last_batch="partial",
    num_threads=2,
    targets=[],
    helper_process=True,
)


def pid_of(loader: Loader) -> int:
    """The process that is kept for the next loop, or serves the one under way."""
    kept = loader._production._kept
    if kept is None:
        kept = loader._epochs.live().gi_frame.f_locals["producer"].reusable  # type: ignore[union-attr]
    return kept.helpers[0].process.pid


def is_gone(pid: int, wait_seconds: float = 0.0) -> bool:
    """Whether a process has ended, or does so in time."""
    until = time.monotonic() + wait_seconds
    while True:
        try:
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        if time.monotonic() > until:
            return False
        time.sleep(0.05)


class TestSameBatches:
    def test_two_epochs_of_mixed_views(self, dataset: Dataset) -> None:
        """Views, soft labels and the next epoch are those of threads; one process makes them all, and leaves nothing."""

        def held() -> set[object]:
            gc.collect()
            files = [path for path in Path("/proc/self/fd").iterdir() if os.path.lexists(path)]
            return {*map(os.readlink, files), *threading.enumerate()}

        torch.zeros(1 << 20).add_(1)  # starts torch's own threads
        before = held()
        with load(dataset, MIXING) as loader:
            pids, epochs = [], []
            for _ in range(2):
                epochs.append(list(loader))
                pids.append(pid_of(loader))
            stages = loader.stats().stages
            assert min(stages[name].busy_seconds for name in ("read", "decode", "augment")) > 0
            assert not is_gone(pids[0])
        assert is_gone(pids[0])
        assert pids[0] == pids[1]
        del loader
        assert not held() - before
        threads = load(dataset, MIXING, helper_process=False)

        for batches in epochs:
            assert_same(batches, list(threads))
        assert epochs[0][0].labels.dtype == torch.float32
        assert not torch.equal(epochs[0][0].images, epochs[1][0].images)

    @pytest.mark.long
    def test_targets(self, dataset: Dataset) -> None:
        """Boxes and masks come over, and images of another dtype and memory format."""
        options = {"targets": "auto", "dtype": torch.bfloat16, "channels_last": False}
        with load(dataset, MOVING, **options) as loader:
            batches = list(loader)

        assert None not in (batches[0].boxes, batches[0].masks)
        assert_same(batches, list(load(dataset, MOVING, **options, helper_process=False)))

    @pytest.mark.long
    def test_shard_on_two_ranks(self, folder: Path, tmp_path: Path) -> None:
        """A tar shard, whose maps stay here, is opened anew in the helper; a rank may have no sample."""
        samples = {path.stem: {"jpg": path.read_bytes()} for path in sorted(folder.rglob("*.jpg"))}
        shard = open_dataset(write_samples(tmp_path / "shard.tar", samples))
        options = {"batch_size": 7, "rank": 0, "world_size": 3, "decode": "fast"}  # 22 = 21 + 1
        with load(shard, **options) as loader:
            batches = list(loader)

        assert sorted(len(batch) for batch in batches) in ([0, 7], [1, 7])
        assert_same(batches, list(load(shard, **options, helper_process=False)))

    @pytest.mark.long
    def test_resume(self, dataset: Dataset) -> None:
        """A state taken with a helper process is continued by threads; `test_two_processes` goes the other way round."""
        with load(dataset) as interrupted:
            had = list(itertools.islice(interrupted, 2))
            assert interrupted.state_dict()["consumed"] == 8
            resumed = load(dataset, helper_process=False)
            resumed.load_state_dict(interrupted.state_dict())
        assert_same([*had, *resumed], list(load(dataset, helper_process=False)))


class TestBadSamples:
    @pytest.mark.parametrize("policy", ["replace", pytest.param("skip", marks=pytest.mark.long)])
    def test_same_as_with_threads(self, faulty: Dataset, policy: str, tmp_path: Path) -> None:
        """Substitutes, gaps and the ledger's lines are those of threads; losses refuse that labels are missing."""
        files = [tmp_path / "helper", tmp_path / "threads"]
        options = {"on_bad_sample": policy, "recipe": MOVING, "max_bad_samples": 9}
        with load(faulty, ledger=files[0], **options) as loader:
            batches = list(loader)
        threads = load(faulty, ledger=files[1], **options, helper_process=False)

        assert_same(batches, list(threads))
        assert {record.index for record in loader.bad_samples} >= {5, 7}
        assert loader.bad_samples == threads.bad_samples
        with pytest.raises(LoaderError, match="4 of 4 labels of the batch are -1"):
            torch.nn.functional.cross_entropy(torch.zeros(4, 3), batches[0].labels)
        assert files[0].read_text() == files[1].read_text()

    @pytest.mark.long
    def test_raise(self, faulty: Dataset) -> None:
        """The batch with a bad sample stops the loop, the ones before it are handed over."""
        loader = load(faulty, shuffle="none")
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
            load(WithLock())

    @pytest.mark.long
    def test_of_the_script_itself(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A class of the script that is run, which the helper cannot import, is named with what to do."""
        kind = type("Mine", (SmallDataset,), {"__module__": "__main__"})
        monkeypatch.setattr(sys.modules["__main__"], "Mine", kind, raising=False)
        with pytest.raises(LoaderError, match=r"'Mine'.* in a module that can be imported"):
            list(load(kind([], [])))

    @pytest.mark.needs_dali
    def test_dali(self, dataset: Dataset) -> None:
        """With DALI there is no helper process, and the error says what is allowed."""
        with pytest.raises(LoaderError, match=r'with decoder="dali"; use decoder="cpu"'):
            load(dataset, decoder="dali")

    def test_engine(self, dataset: Dataset) -> None:
        """A recipe that the engine refuses is refused at once, as always."""
        with pytest.raises(EngineError, match="OnlyHere"):
            load(dataset, Recipe([Resize((8, 8)), OnlyHere()]), engine="kornia")


class TestRelease:
    @pytest.mark.long
    def test_loop_left_early(self, dataset: Dataset) -> None:
        """Dropping the iterator, or the loader after a whole epoch, ends the process; a look at a batch starts it."""
        loader = load(dataset)
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


def test_explain(dataset: Dataset) -> None:
    """explain() tells where the threads are."""
    assert "threads: 2, all in one helper process, prefetch: auto" in load(dataset).explain()
    assert "helper" not in load(dataset, helper_process=False).explain()


@pytest.mark.needs_cuda
def test_on_a_gpu(dataset: Dataset) -> None:
    """The helper draws the canvases, the GPU augments them: the batches of threads."""
    with load(dataset, MIXING, device="cuda") as loader:
        batches = list(loader)
    assert_same(batches, list(load(dataset, MIXING, device="cuda", helper_process=False)))
