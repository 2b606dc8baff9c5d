"""Ranks that die with kill -9 and come back in another number see every sample exactly once, in the global order."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dali_pipes import Loader, Monitoring
from dali_pipes.runs.audit_check import check_audit
from dali_pipes.runs.audit_compare import compare_audits, compare_histories
from dali_pipes.runs.audit_history import History, read_history, read_lines
from gpu_aug import Recipe
from readers import Order, open_dataset
from tests.support import killed_ranks
from tests.support.adapters import write_tar

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(killed_ranks.__file__)


@pytest.fixture
def job(tmp_path: Path, jpeg: Callable[..., bytes]) -> Callable[[int], Path]:
    """Makes the folder of a job with so many samples."""

    def make(num_images: int, *, buckets: bool = False) -> Path:
        shapes = [(10, 10), (9, 20), (20, 9)] if buckets else [(10, 12)]
        if buckets:
            (tmp_path / "buckets").touch()
        pictures = [jpeg(*shapes[number % len(shapes)], seed=number) for number in range(12)]
        write_tar(tmp_path / "train.tar", [pictures[n % 12] for n in range(num_images)])
        (tmp_path / "audit").mkdir()
        open_dataset(tmp_path / "train.tar")  # makes the index
        return tmp_path

    return make


def run(command: list[str], folder: Path, timeout_seconds: int) -> None:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=timeout_seconds,
        check=False,
    )
    log = folder / "ranks.log"
    said = log.read_text()[-3000:] if log.exists() else ""
    assert done.returncode == 0, f"{done.stderr[-3000:]}\n{said}"


def trained(folder: Path) -> list[dict[str, Any]]:
    """What all ranks of all lives have trained on; the last line of a killed rank may be torn."""
    lines = []
    for path in sorted(folder.glob("trained-*.jsonl")):
        for text in path.read_text().split("\n"):
            try:
                lines.append(json.loads(text))
            except ValueError:
                continue
    return lines


def remaining(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of every life, what lies before the checkpoint that the next ones began with."""
    begun = {line["life"]: line["begun"] for line in lines}
    kept = [
        line
        for line in lines
        if all(line["done"] <= start for life, start in begun.items() if life > line["life"])
    ]
    return sorted(kept, key=lambda line: (line["done"], line["rank"]))


def check_exactly_once(folder: Path, lines: list[dict[str, Any]], length: int) -> int:
    """Compare what remains with the global order of all epochs, and return their number."""
    kept = remaining(lines)
    num_epochs = max(line["done"][0] for line in kept) + 1
    order = Order(length, seed=killed_ranks.SEED)
    for epoch in range(num_epochs):
        got = [index for line in kept if line["done"][0] == epoch for index in line["indices"]]
        assert sorted(got) == list(range(length))
        if not (folder / "buckets").exists():
            assert got == order.indices(epoch, np.arange(length)).tolist()
    uninterrupted = killed_ranks.make_loader(
        folder,
        batch_size=9,
        rank=0,
        world_size=1,
        monitoring=Monitoring(audit=folder / "whole.jsonl"),
    )
    for _ in range(num_epochs):
        for batch in uninterrupted:
            del batch
    histories = read_history(str(folder / "whole.jsonl")), read_history(str(folder / "audit"))
    found = compare_histories(*histories)
    assert len(found.epochs) == num_epochs
    assert all(epoch.same for epoch in found.epochs), "\n".join(found.lines())
    _check_that_the_audit_can_tell(histories)
    return num_epochs


def _check_that_the_audit_can_tell(histories: tuple[History, History]) -> None:
    """Negative control: without one of its lines the interrupted run is not the same."""
    one = histories[1].epochs[0].pop(3)
    assert not all(epoch.same for epoch in compare_histories(*histories).epochs)
    histories[1].epochs[0].insert(3, one)


@pytest.mark.long
@pytest.mark.parametrize("buckets", [False, True])
def test_many_kills_and_other_worlds(job: Callable[..., Path], buckets: bool) -> None:
    """22 kills at random moments, on 1, 2, 3, 4, 7 and 8 ranks: every epoch's samples once and in order."""
    length = 400
    folder = job(length, buckets=buckets)
    run([str(SCRIPT), str(folder)], folder, timeout_seconds=150)
    lives = [json.loads(line) for line in (folder / "lives.jsonl").read_text().splitlines()]
    assert len(lives) == killed_ranks.NUM_KILLS
    assert any(life["half_written"] for life in lives)
    assert {life["world_size"] for life in lives} == set(killed_ranks.WORLDS)

    lines = trained(folder)
    assert check_exactly_once(folder, lines, length) >= 2
    assert len(remaining(lines)) < len(lines)  # some steps were lost and done again
    resumed = {tuple(line["begun"]) for line in lines}
    assert len(resumed) > 5


NUM_PHOTOS = 96  # 6 steps of 16 samples


STEPS = 40


def start_agent(port: int, is_host: bool, data: Path, folder: Path) -> subprocess.Popen[bytes]:
    """Start an agent of torchrun in a process group of its own."""
    rendezvous = f"is_host={is_host},last_call_timeout=3,keep_alive_interval=1,join_timeout=300"
    command = [
        *(
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--nnodes",
            "1:3",
            "--nproc-per-node",
            "1",
        ),
        *("--max-restarts", "5", "--monitor-interval", "0.2", "--local-addr", "127.0.0.1"),
        *("--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", "run"),
        *("--rdzv-conf", rendezvous, str(ROOT / "examples" / "train_resnet.py"), str(data)),
        *("--steps", str(STEPS), "--checkpoint", str(folder / "run.pt")),
    ]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    settings = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    with (folder / f"agent-{is_host}.log").open("wb") as log:
        return subprocess.Popen(
            command,
            env={**os.environ, **settings, "PYTHONPATH": path},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def num_lines(folder: Path) -> int:
    """How many whole lines rank 0 has written."""
    path = folder / "run-0.jsonl"
    return len(list(read_lines(path))) if path.exists() else 0


@pytest.mark.long
def test_an_agent_is_killed(jpeg: Callable[..., bytes], tmp_path: Path) -> None:
    """examples/train_resnet.py under torchrun --nnodes 1:3: the audit is that of an undisturbed process."""
    data = tmp_path / "photos"
    for number in range(NUM_PHOTOS):
        folder = data / f"class{number % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:03d}.jpg").write_bytes(jpeg(80, 90, seed=number))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    agents: list[Any] = []
    try:
        for is_host in (True, False):
            agents.append(start_agent(port, is_host, data, tmp_path))
        until = time.monotonic() + 400
        while num_lines(tmp_path) < 1 + 15:  # within the third epoch, 5 steps behind a checkpoint
            assert agents[0].poll() is None, (tmp_path / "agent-True.log").read_text()[-3000:]
            assert time.monotonic() < until
            time.sleep(0.02)
        for pid in workers_of(agents[1].pid):  # torchrun starts them in sessions of their own
            os.kill(pid, signal.SIGKILL)
        os.killpg(agents[1].pid, signal.SIGKILL)
        agents[1].wait()
        assert agents[0].wait(400) == 0, (tmp_path / "agent-True.log").read_text()[-3000:]
    finally:
        for agent in agents:
            if agent.poll() is None:
                for pid in [*workers_of(agent.pid), agent.pid]:
                    os.kill(pid, signal.SIGKILL)
                agent.wait()
    check = check_audit(tmp_path / "run-*.jsonl")
    whole = Loader(
        open_dataset(data),
        Recipe.imagenet_train(size=64),
        batch_size=16,
        device="cpu",
        monitoring=Monitoring(audit=tmp_path / "whole"),
    )
    for _ in range(-(-STEPS * 16 // NUM_PHOTOS)):
        for batch in whole:
            del batch
    found = compare_audits(tmp_path / "run-*.jsonl", tmp_path / "whole")

    assert check.once, check.lines()
    assert check.history.num_superseded > 0
    assert len(check.history.attempts) >= 2
    assert check.history.world_sizes == [1, 2]
    assert not any(epoch.different or epoch.unmatched for epoch in found.epochs), found.lines()
    assert all(epoch.same for epoch in found.epochs[:-1]), found.lines()


def workers_of(pid: int) -> list[int]:
    """The child processes of an agent."""
    found = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in found.read_text().split()] if found.exists() else []
