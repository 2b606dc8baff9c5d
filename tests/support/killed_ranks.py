"""A training job whose ranks are killed, for test_elastic_kills: one rank, and a launcher that forks and kills them.

    python tests/support/killed_ranks.py FOLDER [SEED]   forks, kills and restarts ranks on other numbers of ranks

FOLDER holds train.tar, and a file named buckets where its images have several sizes. A rank writes what it trained on into trained-LIFE-RANK.jsonl, its audit into
audit/rank-RANK.jsonl, and rank 0 keeps checkpoint.json.
"""

import json
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

import torch
import torch.distributed as dist

from dali_pipes import Buckets, Loader, Monitoring
from gpu_aug import HorizontalFlip, RandomResizedCrop, Recipe, Schedule
from readers import open_dataset

SEED = 11
BATCH_SIZE = 2
NUM_KILLS = 22
WORLDS = (1, 2, 3, 4, 7, 8)
RECIPE = Recipe([RandomResizedCrop(8), HorizontalFlip()])
BUCKETS = Buckets([(8, 8), (6, 12), (12, 6)])


def make_loader(folder: Path, **options: Any) -> Loader:
    """The loader of the job; rank and number of ranks are those of the process group."""
    sized = {"buckets": BUCKETS} if (folder / "buckets").exists() else {}
    return Loader(
        open_dataset(folder / "train.tar"),
        recipe_of if sized else RECIPE,
        seed=SEED,
        device="cpu",
        decoder="cpu",
        dtype=torch.uint8,
        last_batch="partial",
        num_threads=1,
        **{"batch_size": BATCH_SIZE, **sized, **options},
    )


def recipe_of(size: tuple[int, int]) -> Schedule:
    """Another recipe in the second epoch."""
    crop = RandomResizedCrop(size)
    return Schedule({0: Recipe([crop, HorizontalFlip()]), 1: Recipe([crop])})


def train(folder: Path, life: int, *, last: bool) -> None:
    """Be a rank of a process group: train, and keep a checkpoint of what all ranks have trained on.

    Args:
        folder: Where everything lies.
        life: Which start of the job this is.
        last: Whether to stop at the end of an epoch, the second one at the earliest.
    """
    rank, world_size = dist.get_rank(), dist.get_world_size()
    loader = make_loader(
        folder, monitoring=Monitoring(audit=folder / "audit" / "rank-{rank}.jsonl")
    )
    checkpoint = folder / "checkpoint.json"
    if checkpoint.exists():
        loader.load_state_dict(json.loads(checkpoint.read_text()))
    begun = loader.state_dict()
    step = 0
    with (folder / f"trained-{life:03d}-{rank}.jsonl").open("a") as trained:
        while True:
            for batch in loader:
                state = loader.state_dict()
                line = {
                    "life": life,
                    "rank": rank,
                    "begun": [begun["epoch"], begun["consumed"]],
                    "done": [state["epoch"], state["consumed"]],
                    "indices": batch.indices.tolist(),
                }
                trained.write(json.dumps(line) + "\n")
                trained.flush()
                time.sleep(0.002)  # the work on it
                done = [torch.zeros(2, dtype=torch.int64) for _ in range(world_size)]
                dist.all_gather(done, torch.tensor(line["done"]))  # all ranks have trained the step
                assert all(torch.equal(one, done[0]) for one in done)
                step += 1
                if rank == 0 and step % 3 == 0:
                    save(checkpoint, json.dumps(state))
            if last and loader.epoch >= 1:
                break
    dist.barrier()


def save(path: Path, text: str) -> None:
    """Replace a file as a whole, slowly, so that kills hit it."""
    new = path.with_suffix(".new")
    with new.open("w") as file:
        file.write(text[: len(text) // 2])
        file.flush()
        time.sleep(0.005)
        file.write(text[len(text) // 2 :])
    new.replace(path)


def launch(folder: Path, seed: int = 5) -> None:
    """Start the job again and again on other numbers of ranks, and kill it at random moments."""
    warm_up(folder)
    rng = random.Random(seed)
    worlds = [WORLDS[life % len(WORLDS)] for life in range(NUM_KILLS + 1)]
    rng.shuffle(worlds)
    for life, world_size in enumerate(worlds):
        ranks = [fork(folder, life, rank, world_size) for rank in range(world_size)]
        if life == NUM_KILLS:
            statuses = [os.waitpid(pid, 0)[1] for pid in ranks]
            assert statuses == [0] * world_size, statuses
            continue
        if life % 4 == 1:  # while rank 0 writes its checkpoint
            wait_until((folder / "checkpoint.new").exists)
        elif life % 7:  # some die before their first step
            steps = rng.randrange(1, 12)
            wait_until(lambda life=life, steps=steps: most_steps(folder, life) >= steps)
            time.sleep(rng.uniform(0, 0.01))
        else:
            time.sleep(rng.uniform(0, 0.15))
        if life % 4 != 1:
            rng.shuffle(ranks)
        for pid in ranks:  # the first one dies by itself, and the others are ended for it
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            time.sleep(rng.choice([0, 0, 0.005]))
        statuses = [os.waitpid(pid, 0)[1] for pid in ranks]
        assert statuses[0] == signal.SIGKILL, statuses
        with (folder / "lives.jsonl").open("a") as lives:
            half_written = (folder / "checkpoint.new").exists()
            lives.write(json.dumps({"world_size": world_size, "half_written": half_written}) + "\n")
        (folder / "checkpoint.new").unlink(missing_ok=True)


def warm_up(folder: Path) -> None:
    """Load all that a rank needs, so that forked ranks start at once."""
    torch.set_num_threads(1)
    with make_loader(folder, rank=0, world_size=1) as loader:
        next(iter(loader))
    tasks = Path("/proc/self/task")
    wait_until(lambda: len(list(tasks.iterdir())) == 1)  # threads that are done may still be ending
    assert len(list(tasks.iterdir())) == 1, "a forked process would lack all threads but one"


def fork(folder: Path, life: int, rank: int, world_size: int) -> int:
    """Start a rank in a process of its own."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        log = os.open(folder / "ranks.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        os.dup2(log, 1)
        os.dup2(log, 2)
        join(folder, life, rank, world_size)
        train(folder, life, last=life == NUM_KILLS)
        code = 0
    except BaseException:  # noqa: BLE001 - a forked process must not return to what forked it
        traceback.print_exc()
    finally:
        os._exit(code)


def join(folder: Path, life: int, rank: int, world_size: int) -> None:
    """Form the process group of this life."""
    # A file of its own: after a restart torchrun's store may still hold the dead ranks' addresses.
    store = dist.FileStore(str(folder / f"store-{life}"), world_size)
    dist.init_process_group(
        "gloo", store=store, rank=rank, world_size=world_size, timeout=timedelta(seconds=60)
    )


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until something is the case, or at most a minute."""
    until = time.monotonic() + 60
    while not condition() and time.monotonic() < until:
        time.sleep(0.001)


def most_steps(folder: Path, life: int) -> int:
    """How many steps the fastest rank of a life has trained on."""
    paths = folder.glob(f"trained-{life:03d}-*.jsonl")
    return max((path.read_bytes().count(b"\n") for path in paths), default=0)


if __name__ == "__main__":
    launch(Path(sys.argv[1]), *map(int, sys.argv[2:]))
