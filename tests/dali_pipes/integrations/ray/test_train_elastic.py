"""Elastic training on Ray Train: a node dies within an epoch, and every sample still comes exactly once."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import copyfile
from typing import Any

import pytest

from dali_pipes import Loader
from dali_pipes.audit_check import check_audit
from dali_pipes.audit_compare import compare_audits
from dali_pipes.audit_lines import Begin, Part, read_lines
from gpu_aug import Recipe
from readers import open_dataset
from tests.support.ray_cluster import MEGABYTE, ROOT, ray_nodes

LENGTH = 132  # 11 steps of 12 samples
STEPS = 240
SETTINGS = {
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5",
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "10",
    "RAY_TRAIN_METRICS_ENABLED": "0",
    "RAY_TRAIN_ENABLE_STATE_ACTOR_RECONCILIATION": "0",
}

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def data(photos: list[Path], tmp_path: Path) -> Path:
    """Class folders of real photographs."""
    for number in range(LENGTH):
        folder = tmp_path / "photos" / f"class{number % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        copyfile(photos[number % len(photos)], folder / f"{number:03d}.jpg")
    return tmp_path / "photos"


@pytest.fixture
def cluster() -> Iterator[tuple[Any, list[Any]]]:
    """Three nodes of one core, which the test may end."""
    pytest.importorskip("ray")
    with ray_nodes(3) as made:
        yield made


def lines(folder: Path) -> list[Begin | Part]:
    """What all ranks have written so far."""
    found = [line for path in folder.glob("*.jsonl") for line in read_lines(path)]
    return [line for line in found if line is not None]


def wait_until(
    what: str, condition: Callable[[list[Begin | Part]], bool], audit: Path, job: Any
) -> None:
    """Wait for something in the audit, at most ten minutes and while the job runs."""
    until = time.monotonic() + 600
    while not condition(lines(audit)):
        assert job.poll() is None, f"the job ended before {what}"
        assert time.monotonic() < until, f"{what} did not come"
        time.sleep(0.05)


def undisturbed(data: Path, audit: Path, num_epochs: int) -> Path:
    """The audit of one process that has all epochs without a break, in steps of the same size."""
    recipe = Recipe.imagenet_train(size=64)
    loader = Loader(open_dataset(data), recipe, batch_size=12, device="cpu", audit=audit)
    for _ in range(num_epochs):
        for batch in loader:
            del batch
    return audit


def steps_of(found: list[Begin | Part], world_size: int) -> int:
    """How many steps rank 0 of so many has taken."""
    parts = (one for one in found if isinstance(one, Part))
    return sum(part.rank == 0 and part.world_size == world_size for part in parts)


def test_a_node_dies_and_another_one_comes(
    data: Path, cluster: tuple[Any, list[Any]], tmp_path: Path
) -> None:
    """examples/train_ray.py goes on with two workers, then with three: the audit is that of an undisturbed process."""
    made, nodes = cluster
    folder = tmp_path / "train_ray"
    audit = folder / "audit"
    script = [sys.executable, str(ROOT / "examples" / "train_ray.py"), str(data)]
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
    whole = undisturbed(data, tmp_path / "whole.jsonl", -(-STEPS * 12 // LENGTH))
    found = compare_audits(audit, whole)

    assert check.once, check.lines()
    assert check.history.num_superseded > 0
    assert check.history.num_attempts >= 2
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
