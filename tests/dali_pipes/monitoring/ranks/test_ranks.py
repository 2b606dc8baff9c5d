"""Ranks that are late are named by one of the others, with stage and file; two ranks of a process, and of two."""

import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dali_pipes import Heartbeat, Loader, Monitoring
from dali_pipes.monitoring.ranks.board import BoardError, FolderBoard, StoreGoneError
from dali_pipes.monitoring.ranks.heartbeat_sender import HeartbeatSender
from dali_pipes.monitoring.ranks.rank_report import RankReport
from gpu_aug import RandomResizedCrop, Recipe
from readers import Dataset, mix, open_dataset
from tests.support.loaders import loader_maker
from tests.support.slow_datasets import Repeated, slow_fetch

SHARD = "/data/train-000017.tar"
load = loader_maker(Recipe([RandomResizedCrop(16)]))


@pytest.fixture
def dataset(folder: Path) -> Repeated:
    """The images, often enough."""
    return Repeated(open_dataset(folder), 100_000)


def train(
    datasets: list[Dataset],
    folder: Path,
    is_over: Callable[[list[Loader]], bool],
    step_seconds: float = 0.02,
) -> list[Loader]:
    """Let ranks step together in threads of this process until something is the case, at most a minute."""
    steps = threading.Barrier(len(datasets))
    until = time.monotonic() + 60
    often = Heartbeat(folder=folder, every_seconds=0.1, stall_seconds=60)
    loaders = [
        load(data, rank=rank, world_size=len(datasets), monitoring=Monitoring(heartbeat=often))
        for rank, data in enumerate(datasets)
    ]

    def run(loader: Loader) -> None:
        with suppress(threading.BrokenBarrierError):  # another one has ended first
            for _ in loader:
                time.sleep(step_seconds)  # the work on it
                steps.wait(60)  # as a collective does
                if is_over(loaders) or time.monotonic() > until:
                    break
        steps.abort()

    with ThreadPoolExecutor(len(loaders)) as ranks:
        list(ranks.map(run, loaders))
    return loaders


def test_healthy_ranks(dataset: Repeated, tmp_path: Path, hands: Any, said: Any) -> None:
    """Nothing is said of ranks that are alike, and all of them are in the table; by a clock of the test."""
    often = Heartbeat(folder=tmp_path, every_seconds=0.1, stall_seconds=60)
    loaders = [
        load(dataset, rank=rank, world_size=2, monitoring=Monitoring(heartbeat=often))
        for rank in (0, 1)
    ]
    loops = [iter(loader) for loader in loaders]
    for _ in range(20):
        for loop in loops:
            next(loop)
        hands.go_on(0.1)
    table = loaders[1].ranks()
    assert (said(), table.late) == ([], [])
    assert [(one.rank, one.number > 8, one.steps, one.samples > 0) for one in table] == [
        *((0, True, 20, True), (1, True, 20, True))
    ]
    for loader in loaders:
        loader.close()


@pytest.mark.parametrize(
    ("seeds", "weights", "names"),
    [
        ((0, 1), None, ["rank 0 has seed=0, rank 1 has seed=1"]),
        (
            (7, 7),
            ([1, 1], [1, 3]),
            ["rank 0 has seed=7, weights={0: (0.5, 0.5)}, rank 1 has seed=7, weights={0: (0.25, "],
        ),
        ((7, 7), ([1, 1], [1, 1]), []),
    ],
    ids=["seeds", "weights", "equal"],
)
def test_other_seeds_and_weights(
    dataset: Repeated, tmp_path: Path, hands: Any, said: Any, seeds: Any, weights: Any, names: Any
) -> None:
    """Ranks of a run with different seeds or weights are named once, by the first rank, in its first epoch."""
    often = Monitoring(heartbeat=Heartbeat(folder=tmp_path, every_seconds=0.1, stall_seconds=60))
    loaders = []
    for rank, seed in enumerate(seeds):
        data = mix([dataset, dataset], weights[rank], length=9000) if weights else dataset
        loaders.append(load(data, rank=rank, world_size=2, seed=seed, monitoring=often))
    loops = [iter(loader) for loader in loaders]
    for _ in range(8):
        for loop in loops:
            next(loop)
        hands.go_on(0.1)
    texts = said()

    assert len(texts) == len(names)
    assert all(name in text for name, text in zip(names, texts, strict=True))
    for loader in loaders:
        loader.close()


def test_a_rank_alone_has_any_seed(dataset: Repeated) -> None:
    """Ranks that each go through all samples are not compared."""
    alone, shared = (load(dataset, rank=0, world_size=size, seed=5) for size in (1, 2))
    for loader in (alone, shared):
        next(iter(loader))
    assert [loader.ranks()[0].draws for loader in (alone, shared)] == ["", "seed=5"]


@pytest.mark.long
def test_slow_reading(folder: Path, dataset: Repeated, tmp_path: Path, said: Any) -> None:
    """The rank whose shard is slow is named once, by the first rank, with the shard."""
    slow = Repeated(open_dataset(folder), len(dataset), slow_fetch(0.2), SHARD)
    loaders = train([dataset, slow], tmp_path, lambda _: bool(said()))
    [text] = said()
    assert text.startswith("rank 1 (")
    assert f"read (most often found at {SHARD}) takes" in text
    assert loaders[0].ranks().late[0].startswith("rank 1")


def test_slow_decoding(
    dataset: Repeated, tmp_path: Path, jpeg: Callable[..., bytes], said: Any
) -> None:
    """So is a rank with images that are slow to decode, and what is special about them."""
    (tmp_path / "large").mkdir()
    for number in range(2):
        data = jpeg(1000, 1000, seed=number, keep_rgb=True)
        (tmp_path / "large" / f"{number}.jpg").write_bytes(data)
    large = Repeated(open_dataset(tmp_path / "large"), len(dataset))
    train([large, dataset], tmp_path / "notes", lambda _: bool(said()))
    [text] = said()
    assert text.startswith("rank 0 (")
    assert re.search(r"; decode takes [\w. ]+ times as long", text)
    assert "images are JPEG (neither gray nor YCbCr), elsewhere 0%" in text


def test_training_that_is_slow_itself(
    dataset: Repeated, tmp_path: Path, hands: Any, said: Any
) -> None:
    """A loop that does not ask for batches is no stall of the loader, and nobody's loader is late."""
    heartbeat = Heartbeat(folder=tmp_path, every_seconds=0.1, stall_seconds=0.6)
    loader = load(dataset, rank=0, world_size=2, monitoring=Monitoring(heartbeat=heartbeat))
    batches = iter(loader)
    next(batches)
    hands.go_on(1.2)
    [note] = loader.ranks()
    batches.close()
    assert (note.state, said()) == ("training loop", [])
    assert note.state_seconds == pytest.approx(1.2)


def test_nobody_is_known_without_a_place(dataset: Repeated) -> None:
    """Without a process group or a folder a rank knows of itself alone, and says so."""
    loader = load(dataset, rank=1, world_size=3)
    assert [note.rank for note in loader.ranks()] == [1]
    assert "there is neither a process group with a store nor a folder" in repr(loader.ranks())
    silent = load(dataset, monitoring=Monitoring(heartbeat=None), rank=1, world_size=3)
    assert "heartbeat=None" in repr(silent.ranks())


class TestSilence:
    """What the first rank says of others, by a clock of the test."""

    @pytest.fixture
    def sender(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HeartbeatSender:
        """Rank 0 of 3, whose notes come every second, and the others' first notes."""
        monkeypatch.setattr("dali_pipes.monitoring.ranks.heartbeat_sender.clock", lambda: self.now)
        self.now, self.board = 0.0, FolderBoard(tmp_path)
        sender = HeartbeatSender(
            self.board, 0, 3, 1.0, lambda: RankReport(rank=0, number=int(self.now)), {}
        )
        self.beat(sender, 1)
        return sender

    def beat(self, sender: HeartbeatSender, times: int, *live: RankReport) -> None:
        """Some seconds in which some ranks are live."""
        for _ in range(times):
            self.now += 1
            for note in live:
                self.board.write(note.rank, replace(note, number=int(self.now)).to_bytes())
            sender.send_report(False)

    def test_said_once(self, sender: HeartbeatSender, said: Any) -> None:
        """A rank that stops reporting is named once, and once more when it reports again."""
        one = RankReport(
            rank=1, host="node1", pid=12, epoch=2, steps=7, state="loader", waits_for="read a.tar"
        )
        two = RankReport(rank=2)
        self.beat(sender, 3, one, two)
        self.beat(sender, 5, two)
        assert said() == []
        self.beat(sender, 20, two)
        assert said() == [
            "rank 1 (node1, process 12) has not reported for 6 s: its process has ended or hangs; its last report "
            "came from the loader after 7 batches of epoch 2, waiting for read a.tar"
        ]
        self.beat(sender, 3, one, two)
        assert said()[1:] == ["rank 1 reports again"]

    def test_loops_that_are_over(self, sender: HeartbeatSender, said: Any) -> None:
        """Nothing is said of a rank whose loop is over, until others have begun the next epoch."""
        one, two = RankReport(rank=1, host="node1", pid=12, state="over"), RankReport(rank=2)
        self.beat(sender, 3, one, two)
        self.beat(sender, 20, two)
        assert said() == []
        self.beat(sender, 3, replace(two, epoch=1))
        assert said() == [
            "rank 1 (node1, process 12) has begun no loop since epoch 0, other ranks have"
        ]

    def test_the_next_rank_speaks(self, said: Any, sender: HeartbeatSender) -> None:
        """Where rank 0 is silent rank 1 says it; rank 2 says nothing while rank 1 lives."""
        others = [
            HeartbeatSender(
                self.board,
                rank,
                3,
                1.0,
                lambda r=rank: RankReport(rank=r, number=int(self.now)),
                {},
            )  # type: ignore[misc]
            for rank in (1, 2)
        ]
        for one in (*others, sender):
            self.beat(one, 1)
        for _ in range(12):
            self.now += 1
            for one in others:
                one.send_report(False)
        [text] = said()
        assert text.startswith("rank 0 (")

    def test_two_loops(self, sender: HeartbeatSender, tmp_path: Path) -> None:
        """Of two loops of a rank, each with a board of its own, the later one speaks until it ends."""
        inner = HeartbeatSender(
            FolderBoard(tmp_path), 0, 3, 1.0, lambda: RankReport(rank=0, epoch=7), {}
        )
        epochs = []
        for one, is_last in ((inner, False), (sender, False), (inner, True), (sender, False)):
            one.send_report(is_last)
            epochs.append(RankReport.from_bytes(self.board.read(0)).epoch)
        assert epochs == [7, 7, 7, 0]

    @pytest.mark.parametrize("error", [BoardError("the disk"), StoreGoneError("the folder")])
    def test_board_that_fails(
        self,
        error: BoardError,
        sender: HeartbeatSender,
        monkeypatch: pytest.MonkeyPatch,
        said: Any,
    ) -> None:
        """That no notes can be left is said once; not of a store, which ends with the run."""

        def fail(*_: Any) -> None:
            raise error

        monkeypatch.setattr(self.board, "write", fail)
        self.beat(sender, 3)
        is_said = not isinstance(error, StoreGoneError)
        assert said() == ["no heartbeat of rank 0 any more: the disk"] * is_said


# Two processes of a process group that step together; the second one is slow, then hangs, then is killed.
PAIR = """
import json, os, signal, sys, time
import torch, torch.distributed as dist
from dali_pipes import Heartbeat, Loader, Monitoring
from gpu_aug import RandomResizedCrop, Recipe
from readers import open_dataset
from tests.support.slow_datasets import Repeated, hang_at, slow_fetch

folder, port, rank = sys.argv[1], sys.argv[2], int(sys.argv[3])
recipe, steps = Recipe([RandomResizedCrop(16)]), torch.ones(1)
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
often = Heartbeat(every_seconds=0.2)
strict = Heartbeat(every_seconds=0.2, stall_seconds=1.0)
how = dict(batch_size=4, device="cpu", decoder="cpu", num_threads=1, shuffle="none")

def train(seconds, hold_up=lambda _: None, heartbeat=often, together=True):
    until, data = time.monotonic() + seconds, open_dataset(folder)
    data = Repeated(data, 10**6, hold_up, "/data/train-000017.tar")
    loader = Loader(data, recipe, monitoring=Monitoring(heartbeat=heartbeat), **how)
    for _ in loader:
        time.sleep(0.1)
        goes_on = torch.tensor(float(time.monotonic() < until))
        if together:
            dist.all_reduce(goes_on, dist.ReduceOp.MIN)
        if not goes_on:
            break
    print(f"{len(loader.ranks())} ranks", file=sys.stderr)

def phase(name):
    print("phase", name, file=sys.stderr, flush=True)
    dist.barrier()

phase("start")
train(0.2)  # what is imported at the first batch is no stall
phase("healthy")
train(2.5)
phase("slow")
train(2.5, slow_fetch(0.4) if rank else lambda _: None)
phase("hangs")
train(4, hang_at(84, lambda: time.sleep(3)) if rank else lambda _: None, strict)
phase("dies")
kill = hang_at(404, lambda: os.kill(os.getpid(), signal.SIGKILL))
train(10, kill if rank else lambda _: None, together=False)
"""


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def phases(text: str) -> dict[str, str]:
    """What a rank said in each phase."""
    parts = re.split(r"^phase (\w+)\n", text, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.long
def test_two_processes(folder: Path) -> None:
    """Through the store of a process group: who is slow, who hangs and where, and nothing of healthy ranks."""
    port = free_port()
    unlabelled = "ignore:no sample of:UserWarning"  # which the images are
    command = [sys.executable, "-W", unlabelled, "-c", PAIR, str(folder), str(port)]
    processes = [
        subprocess.Popen([*command, str(rank)], stderr=subprocess.PIPE, text=True)
        for rank in (0, 1)
    ]
    first, second = [phases(process.communicate(timeout=240)[1]) for process in processes]

    assert (processes[0].returncode, processes[1].returncode) == (0, -signal.SIGKILL)
    assert first["healthy"] == second["healthy"] == "2 ranks\n"
    [late, _] = first["slow"].splitlines()
    assert late.startswith("rank 1 (")
    assert "read (most often found at /data/train-000017.tar) takes" in late
    assert second["slow"] == "2 ranks\n"
    assert "has waited" not in first["hangs"]
    hangs = second["hangs"].splitlines()
    assert re.match(r"rank 1 \(.*\) has waited \d s for batch \d+ of epoch 0 \(longest", hangs[0])
    assert re.match(r"The other ranks are past this batch .*: rank 0 \(for \d s\)", hangs[1])
    assert "read for" in second["hangs"]
    assert "at /data/train-000017.tar" in second["hangs"]
    assert "hang_at.<locals>" in second["hangs"]
    assert re.search(r"has got its batch, and goes on, after \d s", second["hangs"])
    assert second["hangs"].count("has waited") == 1
    dies = r"rank 1 \(.*, process \d+\) has not reported for \d s: its process has ended or hangs; its last"
    assert re.match(dies, first["dies"])
    assert first["dies"].count("has not reported") == 1
