"""Measure loading as in stable-worldmodel's table: python -m tests.support.measure_world_models FOLDER.

github.com/galilai-group/stable-worldmodel, pull request 214, printed on its authors' machine, 8 workers: Lance 5,058,
MP4 1,512 and HDF5 1,080 samples/s. A sample is a window of 4 steps, every fifth frame of 224 x 224 pixels, with actions
and a state; a batch has 64. Their script takes windows in the order of the data, which lets their Lance reader
fetch each frame of a batch once; --order random is what training does.

Their package writes the three layouts here, of frames that pan over photographs, and reads them with its dataset
classes in a DataLoader of torch. Ours reads the same files with open_dataset and Loader, from HDF5 and Lance the
rows of each window, from MP4 clips with random starts. It runs in an environment of its own, which sees this one's
packages: pip install --no-deps stable-worldmodel==0.1.1; pip install lancedb decord hdf5plugin imageio-ffmpeg loguru
gymnasium tabulate einops.
"""

import argparse
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader

from bench.compare.compare import rest
from bench.compare.contract import Contestant, Pipeline
from bench.compare.photographs import enlarge, shipped_photographs, walk
from bench.compare.process import ContestantProcess
from bench.timing import measure_in_turns
from dali_pipes import Clips, Loader
from gpu_aug import Recipe, Resize
from readers import open_dataset

SIZE = (224, 224)
STEPS, SKIP, BATCH_SIZE = 4, 5, 64
LAYOUTS = {"hdf5": "frames.h5", "lance": "frames.lance", "video": "frames.video"}
KEYS = ["pixels", "action", "proprio"]


@dataclass(frozen=True)
class Task:
    """What each contestant's process gets; see `ContestantProcess.open`."""

    folder: Path
    order: str
    workers: int
    episodes: int
    length: int
    batch_size: int = BATCH_SIZE
    plan = None

    @property
    def device(self) -> torch.device:
        """The device of the batches."""
        return torch.device("cpu")

    def check_batch(self, batch: torch.Tensor) -> None:
        """Raise if a batch is no windows of uint8 pictures."""
        assert (batch.shape, batch.dtype) == ((BATCH_SIZE, STEPS, 3, *SIZE), torch.uint8)


def write(folder: Path, episodes: int, length: int) -> None:
    """Write the three layouts with the writers of stable-worldmodel."""
    from stable_worldmodel.data.format import get_format

    stills = [path for paths in shipped_photographs().values() for path in paths]

    def made() -> Iterator[dict[str, Any]]:
        for number in range(episodes):
            rng = np.random.default_rng(number)
            still = enlarge(stills[number % len(stills)], SIZE)
            vectors = np.cumsum(rng.normal(size=(2, length, 2)), 1).astype(np.float32)
            frames = list(walk(still, SIZE, length, rng))
            yield {"pixels": frames, "action": list(vectors[0]), "proprio": list(vectors[1])}

    for name, file in LAYOUTS.items():
        with get_format(name).open_writer(folder / file, mode="overwrite") as writer:
            writer.write_episodes(made())


def starts(task: Task) -> NDArray[np.int64]:
    """Return the first row of each window: those of their dataset class, in its order or shuffled."""
    span = STEPS * SKIP
    rows = np.arange(task.length - span + 1) + task.length * np.arange(task.episodes)[:, None]
    flat = rows.reshape(-1)
    return np.random.default_rng(0).permutation(flat) if task.order == "random" else flat


def start(task: Task, *, name: str, is_ours: bool) -> Pipeline:
    """Start our loader or their dataset class in a DataLoader."""
    ahead = 2 if is_ours else 2 * task.workers
    return Pipeline((ours if is_ours else theirs)(name, task), "", ahead, ahead + 2)


def theirs(name: str, task: Task) -> Iterator[torch.Tensor]:
    """Yield batches of their dataset class, endlessly."""
    from stable_worldmodel.data.format import get_format

    options: dict[str, Any] = {"frameskip": SKIP, "num_steps": STEPS, "keys_to_load": KEYS}
    if name == "video":
        options["video_keys"] = ["pixels"]
    loader = DataLoader(
        get_format(name).open_reader(task.folder / LAYOUTS[name], **options),
        batch_size=BATCH_SIZE,
        shuffle=task.order == "random",
        num_workers=task.workers,
        drop_last=True,
        persistent_workers=True,
    )
    while True:
        for batch in loader:
            yield batch["pixels"]


def ours(name: str, task: Task) -> Iterator[torch.Tensor]:
    """Yield batches of our loader, endlessly."""
    first_rows, recipe = starts(task), Recipe([Resize(SIZE)])
    options: dict[str, Any] = {
        "dtype": torch.uint8,
        "device": task.device,
        "shuffle": "none",
        "num_threads": task.workers,
    }
    if name == "video":
        videos = open_dataset(task.folder / LAYOUTS[name] / "pixels")
        per_video = -(-len(first_rows) // len(videos))
        clips = Clips(videos, num_frames=STEPS, stride=SKIP, clips_per_video=per_video)
        options |= {"batch_size": BATCH_SIZE, "shuffle": "global"}
        loader = Loader(clips, recipe, **options)
    else:
        rows = open_dataset(task.folder / LAYOUTS[name], image="pixels", columns=KEYS)
        picks = (first_rows[:, None] + SKIP * np.arange(STEPS)).reshape(-1)
        options |= {"batch_size": BATCH_SIZE * STEPS, "fields": KEYS[1:]}
        loader = Loader(rows.take(picks), recipe, **options)
    while True:
        for batch in loader:
            yield batch.images.reshape(BATCH_SIZE, STEPS, 3, *SIZE)


def main() -> None:
    """Write the layouts unless they exist, measure, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--order", choices=("random", "sequential"), default="random")
    parser.add_argument("--episodes", type=int, default=40)
    parser.add_argument("--length", type=int, default=100)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    if not given.folder.exists():
        given.folder.mkdir(parents=True)
        write(given.folder, given.episodes, given.length)
    task = Task(given.folder, given.order, given.workers, given.episodes, given.length)
    with ExitStack() as stack:
        running = {}
        for name in LAYOUTS:
            for is_ours in (True, False):
                title = f"{name}, {'gpu-aug' if is_ours else 'stable-worldmodel'}"
                options = {"name": name, "is_ours": is_ours}
                one = Contestant(title, "ceiling", f"{start.__module__}:start", options)
                running[title] = stack.enter_context(closing(ContestantProcess(one)))
                running[title].open(task)
        measured = measure_in_turns(
            {title: process.turn for title, process in running.items()},
            seconds=given.seconds,
            rounds=given.rounds,
            after_turn=lambda title, turn: rest(running[title], task, turn.rate),
        )
    sys.stdout.write(f"windows/s, {given.order}, {given.workers} workers or threads; CPU ms\n")
    for title, one in measured.items():
        rates = ", ".join(f"{rate:.0f}" for rate in one.rates)
        cost = 1e3 * one.cpu_seconds_per_item
        sys.stdout.write(f"{title:26}{one.median:8.0f}{cost:8.2f}   ({rates})\n")


if __name__ == "__main__":
    from tests.support import measure_world_models

    measure_world_models.main()  # by its name, under which other processes find its classes
