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
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader

from bench.compare.photographs import enlarge, shipped_photographs, walk
from bench.timing import Turn, measure_in_turns, take_turn
from dali_pipes import Clips, Loader
from gpu_aug import Recipe, Resize
from readers import open_dataset

SIZE = (224, 224)
STEPS, SKIP, BATCH_SIZE = 4, 5, 64
LAYOUTS = {"hdf5": "frames.h5", "lance": "frames.lance", "video": "frames.video"}
KEYS = ["pixels", "action", "proprio"]
_NUM_AHEAD = 8  # batches that may be ready before a turn


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


def starts(episodes: int, length: int, order: str) -> NDArray[np.int64]:
    """Return the first row of each window: those of their dataset class, in its order or shuffled."""
    span = STEPS * SKIP
    rows = np.arange(length - span + 1) + length * np.arange(episodes)[:, None]
    flat = rows.reshape(-1)
    return np.random.default_rng(0).permutation(flat) if order == "random" else flat


def theirs(name: str, folder: Path, order: str, workers: int) -> Iterator[Any]:
    """Yield batches of their dataset class, endlessly."""
    from stable_worldmodel.data.format import get_format

    options: dict[str, Any] = {"frameskip": SKIP, "num_steps": STEPS, "keys_to_load": KEYS}
    if name == "video":
        options["video_keys"] = ["pixels"]
    dataset = get_format(name).open_reader(folder / LAYOUTS[name], **options)
    loader = DataLoader(
        dataset,
        batch_size=BATCH_SIZE,
        shuffle=order == "random",
        num_workers=workers,
        drop_last=True,
        persistent_workers=True,
    )
    while True:
        for batch in loader:
            assert batch["pixels"].shape == (BATCH_SIZE, STEPS, 3, *SIZE)
            yield batch["pixels"]


def ours(name: str, folder: Path, first_rows: NDArray[np.int64], workers: int) -> Iterator[Any]:
    """Yield batches of our loader, endlessly."""
    options: dict[str, Any] = {
        "dtype": torch.uint8,
        "device": "cpu",
        "shuffle": "none",
        "num_threads": workers,
    }
    recipe = Recipe([Resize(SIZE)])
    if name == "video":
        videos = open_dataset(folder / LAYOUTS[name] / "pixels")
        per_video = -(-len(first_rows) // len(videos))
        clips = Clips(videos, num_frames=STEPS, stride=SKIP, clips_per_video=per_video)
        options |= {"batch_size": BATCH_SIZE, "shuffle": "global"}
        loader = Loader(clips, recipe, **options)
    else:
        rows = open_dataset(folder / LAYOUTS[name], image="pixels", columns=KEYS)
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
    first_rows = starts(given.episodes, given.length, given.order)

    def turn(batches: Iterator[Any], seconds: float) -> Turn:
        return take_turn(partial(next, batches), seconds=seconds, discard=_NUM_AHEAD)

    contestants = {}
    for name in LAYOUTS:
        own = ours(name, given.folder, first_rows, given.workers)
        other = theirs(name, given.folder, given.order, given.workers)
        contestants |= {f"{name} ours": partial(turn, own)}
        contestants |= {f"{name} stable-worldmodel": partial(turn, other)}
    measured = measure_in_turns(contestants, seconds=given.seconds, rounds=given.rounds)
    sys.stdout.write(f"windows/s, {given.order}, {given.workers} workers or threads\n")
    for name, one in measured.items():
        rates = ", ".join(f"{rate:.0f}" for rate in one.rates)
        sys.stdout.write(f"{name:26}{one.median:8.0f}   ({rates})\n")


if __name__ == "__main__":
    main()
