"""Remote workers that die, hang or lose their machine, also under Ray Train: no batch changes, none is lost or doubled."""

import hashlib
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from shutil import copyfile
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dali_pipes import Batch, ClusterError, Loader, Monitoring
from dali_pipes.integrations.ray import worker_pool
from dali_pipes.integrations.ray.maker import MadeStep
from dali_pipes.integrations.ray.worker_pool import Step, Worker, WorkerPool
from dali_pipes.integrations.ray.workers import RayWorkers
from dali_pipes.monitoring.counts import Counts
from dali_pipes.runs.audit_check import check_audit
from dali_pipes.runs.audit_compare import compare_audits
from dali_pipes.runs.audit_history import BeginLine, StepLine, read_lines
from dali_pipes.stages.job import Report
from gpu_aug import HorizontalFlip, RandomResizedCrop, Recipe
from readers import Dataset, open_dataset
from tests.support.loaders import loader_maker
from tests.support.ray_cluster import MEGABYTE, ROOT
from tests.support.same_batches import assert_same

ray = pytest.importorskip("ray")


DEAD = ray.exceptions.ActorDiedError()


class FakePool(WorkerPool):
    """A pool of two workers that never were; a test sets the results of steps by their numbers."""

    def __init__(self, results: dict[int, Any]) -> None:
        def get(ref: str, timeout: float | None = None) -> Any:
            del timeout
            result = results[int(ref.split()[0])]
            if isinstance(result, Exception):
                raise result
            return result

        def wait(refs: list[str], **_: Any) -> tuple[list[str], list[str]]:
            return [ref for ref in refs if int(ref.split()[0]) in results], []

        self._ray: Any = SimpleNamespace(exceptions=ray.exceptions, get=get, wait=wait)
        self._options, self._steps_per_worker = RayWorkers(2), 3
        self._job: Any = SimpleNamespace(frames=[[]])
        self._losses, self._unsent, self._failure = [], [], None
        self._pending, self.sent = {}, []
        self._numbers = count()
        self._end = lambda: None  # type: ignore[assignment]
        self._workers = []
        self._workers += [self._started_worker(number) for number in range(2)]

    def _started_worker(self, number: int) -> Worker:
        return Worker(number, None, "m")

    def _send(self, step: Step, worker: Worker) -> None:
        self.sent.append(step.number)
        step.worker = worker
        self._pending[f"{step.number} by {id(worker)}"] = (worker, step)

    def give(self) -> Step:
        """Ask for a step."""
        return self.start(SimpleNamespace(variant=0), is_watched=False)  # type: ignore[arg-type]


def made(metadata: bytes) -> MadeStep:
    """A step that a worker has made."""
    return MadeStep(Report(Counts(), 0.0), np.frombuffer(metadata, np.uint8), [], 0.0)


def test_a_dead_actor_gets_no_further_steps() -> None:
    """It is replaced when its error arrives, though steps before that are still made, and its steps are made again."""
    results: dict[int, Any] = {}
    pool = FakePool(results)
    steps = [pool.give() for _ in range(4)]
    old = pool._workers[1]
    results[1] = DEAD

    later = pool.give()

    assert pool._workers[1] is not old
    assert later.worker is not old
    assert all(step.worker is not old for step in steps)
    assert [step.number for step in steps if step.made is not None] == []


def test_what_a_lost_actor_made_before_is_kept() -> None:
    """A step that has arrived is handed over, not made again."""
    results: dict[int, Any] = {}
    pool = FakePool(results)
    steps = [pool.give() for _ in range(4)]
    results[1] = made(b"first")
    pool._advance()
    results[3] = DEAD
    pool._advance()
    times = pool.sent.count(1)

    assert (bytes(pool.receive(steps[1]).metadata), times) == (b"first", 1)


def test_the_error_comes_behind_the_steps_before_it() -> None:
    """A worker that dies again and again ends the loop when its step is due, and not before."""
    results: dict[int, Any] = {}
    pool = FakePool(results)
    good, bad = pool.give(), pool.give()
    results[1] = DEAD
    for _ in range(20):
        pool._advance()
    results[0] = made(b"good")

    assert bytes(pool.receive(good).metadata) == b"good"
    with pytest.raises(ClusterError, match="replaced 6 times while no batch came"):
        pool.receive(bad)


BLOCKED = """
import ctypes
from dali_pipes.integrations.ray import maker

maker._BLOCKED_SECONDS = 0.5
maker.Maker(0.5)._in_time(lambda: ctypes.PyDLL(None).sleep(60), "")
"""


def test_native_code_that_keeps_the_lock_of_python() -> None:
    """No thread can see that the deadline has passed, so the process ends by itself."""
    blocked = subprocess.run(
        [sys.executable, "-c", BLOCKED], capture_output=True, text=True, cwd=ROOT, timeout=50
    )
    assert blocked.returncode == 1
    assert "Timeout (0:00:01)!" in blocked.stderr


RECIPE = Recipe([RandomResizedCrop(32), HorizontalFlip()])


STOPS = {"die": signal.SIGKILL, "stop": signal.SIGSTOP}


class Faulty:
    """A dataset on which a worker ends, or hangs, when it reads a sample; ``once``: the first time only."""

    class_names = ()
    fingerprint = "faulty"

    def __init__(
        self, inner: Dataset, how: str, marker: Path, *, once: bool = True, sample: int = 9
    ) -> None:
        self.inner, self.how, self.marker, self.once = inner, how, marker, once
        self.sample = sample
        self.trainer = os.getpid()

    def __len__(self) -> int:
        return len(self.inner)

    def fetch(self, indices: Sequence[int]) -> list[Any]:
        """Fail at the sample, but not in the training process."""
        if self.sample in indices and os.getpid() != self.trainer and not self._has_failed():
            if self.how in STOPS:
                os.kill(os.getpid(), STOPS[self.how])
            while True:
                signal.pause()
        return self.inner.fetch(indices)

    def _has_failed(self) -> bool:
        if self.once and self.marker.exists():
            return True
        self.marker.touch()
        return False


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, jpeg: Callable[..., bytes]) -> Path:
    """48 images."""
    root = tmp_path_factory.mktemp("images")
    for number in range(48):
        (root / f"{number:02d}.jpg").write_bytes(jpeg(60 + number, 90 - number, seed=number))
    return root


load = loader_maker(RECIPE, batch_size=2, seed=3, num_threads=None)


@pytest.mark.long
def test_a_node_is_removed(folder: Path, own_cluster: tuple[Any, list[Any]]) -> None:
    """A machine goes away in mid-epoch: its steps are made elsewhere, and every batch is that of a local loader."""
    expected = list(load(open_dataset(folder)))
    cluster, nodes = own_cluster
    with load(open_dataset(folder), workers=RayWorkers(3)) as loader:
        found = []
        for batch in loader:
            found.append(batch)
            if len(found) == 6:
                cluster.remove_node(nodes[0], allow_graceful=False)
    assert_same(found, expected)
    assert_same(list(load(open_dataset(folder), workers=RayWorkers(1))), expected)


@pytest.mark.long
@pytest.mark.parametrize("how", ["die", "hang", "stop"])
@pytest.mark.usefixtures("ray_cluster")
def test_a_worker_fails_once(
    folder: Path,
    tmp_path: Path,
    how: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A worker that dies, or works on a step beyond the deadline, or is stopped is replaced; nothing is lost, doubled or moved."""
    monkeypatch.setattr(worker_pool, "_ANSWER_SECONDS", 5.0)
    expected = list(load(open_dataset(folder)))
    dataset = Faulty(open_dataset(folder), how, tmp_path / "failed")
    workers = RayWorkers(2, deadline_seconds=300 if how == "die" else 15)
    with load(dataset, workers=workers) as loader:
        assert_same(list(loader), expected)
    assert (tmp_path / "failed").exists()
    assert "of the loader is replaced: " in caplog.text


@pytest.mark.long
@pytest.mark.usefixtures("ray_cluster")
def test_a_worker_that_hangs_while_it_starts(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is replaced after the deadline; where all do, the loop ends with an error that names worker and machine."""
    expected = list(load(open_dataset(folder)))
    once = Faulty(open_dataset(folder), "hang", tmp_path / "failed", sample=0)
    with load(once, workers=RayWorkers(1, deadline_seconds=15)) as loader:
        assert_same(list(loader), expected)
    place = f"it has been starting on {platform.node()} for"
    assert f"worker 0 of the loader is replaced: {place}" in caplog.text
    always = Faulty(open_dataset(folder), "hang", tmp_path / "failed", sample=0, once=False)
    with (
        load(always, workers=RayWorkers(1, deadline_seconds=2)) as loader,
        pytest.raises(ClusterError, match=f"was worker 0: {place}"),
    ):
        list(loader)


@pytest.mark.long
@pytest.mark.usefixtures("ray_cluster")
def test_a_step_that_ends_every_worker(folder: Path, tmp_path: Path) -> None:
    """The loop ends with an error that says how often and of what, after the batches before that step."""
    dataset = Faulty(open_dataset(folder), "die", tmp_path / "failed", once=False)
    found: list[Batch] = []
    with (
        load(dataset, workers=RayWorkers(1), shuffle="none") as loader,
        pytest.raises(ClusterError, match=r"replaced 3 times while no batch came.*ActorDied"),
    ):
        found.extend(loader)
    assert_same(found, list(load(open_dataset(folder), shuffle="none"))[:4])


LOOP = """
import sys
from dali_pipes import Loader
from dali_pipes.integrations.ray.workers import RayWorkers
from gpu_aug import RandomResizedCrop, Recipe
from readers import open_dataset

loader = Loader(open_dataset(sys.argv[1]), Recipe([RandomResizedCrop(24)]), batch_size=2,
                device="cpu", decoder="cpu", workers=RayWorkers(2, address=sys.argv[2]))
for batch in loader:
    print("a batch", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.long
def test_the_training_process_is_killed(folder: Path, ray_cluster: Any) -> None:
    """Its actors end with it."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", LOOP, str(folder), ray_cluster.address]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "a batch\n"
        assert _makers()
        process.kill()
    until = time.monotonic() + 60
    while _makers() and time.monotonic() < until:
        time.sleep(0.2)
    assert not _makers()


def _makers() -> list[int]:
    """Processes that are actors of a loader, in a cluster of this test run."""
    found, token = [], os.environ["RAY_AUTH_TOKEN"].encode()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            named = path.read_bytes().startswith(b"ray::Maker")
            if named and token in path.with_name("environ").read_bytes():
                found.append(int(path.parent.name))
    return found


def train(told: dict[str, str]) -> None:
    """Be a rank: loop with a remote worker and without."""
    import ray.train

    def seen(**options: Any) -> list[tuple[list[int], str]]:
        photos, recipe = open_dataset(told["data"]), Recipe([RandomResizedCrop(32)])
        with Loader(photos, recipe, batch_size=4, device="cpu", decoder="cpu", **options) as loader:
            return [
                (batch.indices.tolist(), hashlib.sha256(batch.images.numpy().tobytes()).hexdigest())
                for batch in loader
            ]

    remote, local = seen(workers=RayWorkers(1)), seen()
    rank = ray.train.get_context().get_world_rank()
    indices = [index for some, _ in local for index in some]
    (Path(told["out"]) / f"{rank}").write_text(f"{remote == local} {' '.join(map(str, indices))}")
    ray.train.report({})


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning:ray", "ignore::FutureWarning:ray")
def test_each_rank_may_have_workers(
    data: Path, tmp_path: Path, own_cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The actors are in the cluster that Ray Train is in; ranks share the epoch, and batches are the local ones."""
    monkeypatch.setenv("RAY_TRAIN_METRICS_ENABLED", "0")
    monkeypatch.setenv("RAY_TRAIN_ENABLE_STATE_ACTOR_RECONCILIATION", "0")
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    cluster, _ = own_cluster
    cluster.add_node(num_cpus=1)
    TorchTrainer(
        train,
        train_loop_config={"data": str(data / "photos"), "out": str(tmp_path)},
        torch_config=TorchConfig(backend="gloo"),
        scaling_config=ScalingConfig(num_workers=2, resources_per_worker={"CPU": 1}),
        run_config=RunConfig(name="run", storage_path=str(tmp_path / "runs")),
    ).fit()

    found = [(tmp_path / str(rank)).read_text().split() for rank in range(2)]
    assert [words[0] for words in found] == ["True", "True"]
    indices = [int(word) for words in found for word in words[1:]]
    assert len(indices) == len(set(indices)) == 32


LENGTH = 132  # 11 steps of 12 samples
STEPS = 240
SETTINGS = {
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5",
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "10",
    "RAY_TRAIN_METRICS_ENABLED": "0",
    "RAY_TRAIN_ENABLE_STATE_ACTOR_RECONCILIATION": "0",
}


@pytest.fixture
def class_folders(photos: list[Path], tmp_path: Path) -> Path:
    """Class folders of real photographs."""
    for number in range(LENGTH):
        folder = tmp_path / "photos" / f"class{number % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        copyfile(photos[number % len(photos)], folder / f"{number:03d}.jpg")
    return tmp_path / "photos"


def lines(folder: Path) -> list[BeginLine | StepLine]:
    """What all ranks have written so far."""
    return [line for path in folder.glob("*.jsonl") for line in read_lines(path)]


def wait_until(
    what: str, condition: Callable[[list[BeginLine | StepLine]], bool], audit: Path, job: Any
) -> None:
    """Wait for something in the audit, at most ten minutes and while the job runs."""
    until = time.monotonic() + 600
    while not condition(lines(audit)):
        assert job.poll() is None, f"the job ended before {what}"
        assert time.monotonic() < until, f"{what} did not come"
        time.sleep(0.05)


def undisturbed(class_folders: Path, audit: Path, num_epochs: int) -> Path:
    """The audit of one process that has all epochs without a break, in steps of the same size."""
    recipe = Recipe.imagenet_train(size=64)
    loader = Loader(
        open_dataset(class_folders),
        recipe,
        batch_size=12,
        device="cpu",
        monitoring=Monitoring(audit=audit),
    )
    for _ in range(num_epochs):
        for batch in loader:
            del batch
    return audit


def steps_of(found: list[BeginLine | StepLine], world_size: int) -> int:
    """How many steps rank 0 of so many has taken."""
    parts = (one for one in found if isinstance(one, StepLine))
    return sum(part.rank == 0 and part.world_size == world_size for part in parts)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_a_node_dies_and_another_one_comes(
    class_folders: Path, own_cluster: tuple[Any, list[Any]], tmp_path: Path
) -> None:
    """examples/train_ray.py goes on with two workers, then with three: the audit is that of an undisturbed process."""
    made, nodes = own_cluster
    folder = tmp_path / "train_ray"
    audit = folder / "audit"
    script = [sys.executable, str(ROOT / "examples" / "train_ray.py"), str(class_folders)]
    with (tmp_path / "log").open("w") as log:
        job = subprocess.Popen(
            [*script, "--steps", str(STEPS), "--checkpoint", str(folder)],
            env={**os.environ, **SETTINGS, "RAY_ADDRESS": made.address},
            stdout=log,
            stderr=log,
        )
        try:
            wait_until("step 24", lambda found: steps_of(found, 3) >= 24, audit, job)
            made.remove_node(nodes[1], allow_graceful=False)  # steps 21 to 24 are lost
            wait_until("two workers", lambda found: steps_of(found, 2) >= 3, audit, job)
            made.add_node(num_cpus=1, object_store_memory=150 * MEGABYTE)
            assert job.wait(600) == 0, (tmp_path / "log").read_text()[-3000:]
        finally:
            job.kill()
            job.wait()
    check = check_audit(audit)
    whole = undisturbed(class_folders, tmp_path / "whole.jsonl", -(-STEPS * 12 // LENGTH))
    found = compare_audits(audit, whole)

    assert check.once, check.lines()
    assert check.history.num_superseded > 0
    assert len(check.history.attempts) >= 2
    assert {2, 3} <= set(check.history.world_sizes)
    assert not any(epoch.different or epoch.unmatched for epoch in found.epochs), found.lines()
    assert all(epoch.same for epoch in found.epochs[:-1]), found.lines()
    plant(audit)
    assert not check_audit(audit).once


def plant(audit: Path) -> None:
    """Negative control: the last step of a rank is handed over once more."""
    path = max(audit.glob("*.jsonl"), key=lambda path: path.stat().st_size)
    with path.open("a") as file:
        file.write(path.read_text().splitlines()[-1] + "\n")
