"""Two agents of torchrun train together; one is killed within an epoch, and the other one goes on alone."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dali_pipes import Loader
from dali_pipes.audit_check import check_audit
from dali_pipes.audit_compare import compare_audits
from dali_pipes.audit_lines import read_lines
from gpu_aug import Recipe
from readers import open_dataset

ROOT = Path(__file__).resolve().parents[2]
LENGTH = 96  # 6 steps of 16 samples
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
    return sum(line is not None for line in read_lines(path)) if path.exists() else 0


@pytest.mark.long
def test_an_agent_is_killed(jpeg: Callable[..., bytes], tmp_path: Path) -> None:
    """examples/train_resnet.py under torchrun --nnodes 1:3: the audit is that of an undisturbed process."""
    data = tmp_path / "photos"
    for number in range(LENGTH):
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
        audit=tmp_path / "whole",
    )
    for _ in range(-(-STEPS * 16 // LENGTH)):
        for batch in whole:
            del batch
    found = compare_audits(tmp_path / "run-*.jsonl", tmp_path / "whole")

    assert check.once, check.lines()
    assert check.history.num_superseded > 0
    assert check.history.num_attempts >= 2
    assert check.history.world_sizes == [1, 2]
    assert not any(epoch.different or epoch.unmatched for epoch in found.epochs), found.lines()
    assert all(epoch.same for epoch in found.epochs[:-1]), found.lines()


def workers_of(pid: int) -> list[int]:
    """The child processes of an agent."""
    found = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in found.read_text().split()] if found.exists() else []
