"""Runs that are stopped in the middle, for states that a later version goes on from.

`python -m tests.support.states FOLDER` writes what a version stores outside a process: small data with their indexes,
a state of each run with what comes after it, a plan of shards, audits and recipes. It is done once for a version, into
``tests/data/states-VERSION``; from then on only tests/test_states.py reads it.
"""

import hashlib
import io
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from dali_pipes import BlockShuffle, Buckets, Clips, Loader, Monitoring
from gpu_aug import (
    ColorJitter,
    CutMix,
    HorizontalFlip,
    MixUp,
    Normalize,
    RandAugment,
    RandomCrop,
    RandomResizedCrop,
    Recipe,
    Schedule,
    VerticalFlip,
    Views,
)
from readers import mix, open_dataset
from readers.prepare import make_shard, plan_shards
from tests.support.loaders import loader_maker
from tests.support.tars import write_samples
from tests.support.videos import pan, write_video

EXACT = Recipe([RandomCrop(12), HorizontalFlip(), VerticalFlip(p=0.3)])
"""Its pixels are some of the image's, whatever library decodes a PNG."""
OTHER = Recipe([RandomCrop(12), HorizontalFlip(p=0.1)])
SAVED = {
    "train.yaml": Recipe([RandomResizedCrop(24), RandAugment(), ColorJitter(0.4), Normalize()]),
    "mixed.json": Recipe([RandomCrop(12), MixUp(0.2), CutMix(num_classes=3)]),
}
STOPPED_AFTER, FOLLOWED_FOR = 4, 7
"""Steps of four samples: into the second epoch, and into the third."""
NUM_SAMPLES = 14


loader = loader_maker(EXACT, seed=7)


def tars(folder: Path) -> Any:
    """The two shards."""
    return open_dataset(folder / "train-{0000..0001}.tar")


def _mixture(folder: Path) -> Loader:
    both = [tars(folder).where("label > 0"), open_dataset(folder / "photos")]
    return loader(mix(both, [0.25, 0.75], length=13))


def _stream(folder: Path) -> Loader:
    stream = open_dataset(folder / "train-{0000..0001}.tar", format="stream")
    return loader(stream, shuffle=BlockShuffle(window=6))


RUNS: dict[str, Callable[[Path], Loader]] = {
    "global": lambda folder: loader(tars(folder)),
    "block": lambda folder: loader(tars(folder), shuffle=BlockShuffle(window=6)),
    "in order": lambda folder: loader(tars(folder), shuffle="none"),
    "folder": lambda folder: loader(open_dataset(folder / "photos")),
    "part": lambda folder: loader(tars(folder).split(0.7, 0.3, seed=3)[0]),
    "balanced": lambda folder: loader(tars(folder).balanced(length=13)),
    "mixture": _mixture,
    "stream": _stream,
    "buckets": lambda folder: loader(
        open_dataset(folder / "photos"),
        lambda size: Recipe([RandomCrop(size), HorizontalFlip()]),
        buckets=Buckets([(12, 12), (12, 16)]),
        batch_size=2,
    ),
    "views": lambda folder: loader(tars(folder), Views([EXACT, OTHER])),
    "by epoch": lambda folder: loader(tars(folder), Schedule({0: EXACT, 2: OTHER})),
    "mixed": lambda folder: loader(tars(folder), Recipe([RandomCrop(12), CutMix(num_classes=3)])),
    "clips": lambda folder: loader(
        Clips(open_dataset(folder / "videos"), num_frames=2, stride=1, clips_per_video=5),
        Recipe([RandomCrop(32)]),
    ),
}
"""Runs over the data, by what is particular to their states."""


def batches(run: Loader) -> Iterator[Any]:
    """Batches of one epoch after the other."""
    while True:
        yield from run


def followed(steps: Iterator[Any], name: str) -> list[dict[str, Any]]:
    """What the next steps are: indices, and a hash of the pixels where those are some of the image's."""
    told = []
    for batch in islice(steps, FOLLOWED_FOR):
        step: dict[str, Any] = {"indices": batch.indices.tolist()}
        if name != "clips":  # another FFmpeg may decode otherwise
            step["pixels"] = _hash_of(batch.images)
        told.append(step)
    return told


def _hash_of(images: Any) -> str:
    views = images if isinstance(images, tuple | list) else [images]
    digest = hashlib.sha256()
    for view in views:
        pixels = (view * 255).round().to(torch.uint8)
        digest.update(pixels.contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def write_data(folder: Path) -> None:
    """Small PNGs in two shards and in folders of classes, and videos."""
    for shard in range(2):
        numbers = range(shard * NUM_SAMPLES // 2, (shard + 1) * NUM_SAMPLES // 2)
        samples = {
            f"{number:03d}": {"png": _png(16, 20, number), "cls": str(number % 3).encode()}
            for number in numbers
        }
        write_samples(folder / f"train-{shard:04d}.tar", samples)
    for number in range(NUM_SAMPLES):
        path = folder / "photos" / ("cat", "dog")[number % 2] / f"{number:03d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_png(*((16, 16), (14, 20))[number // 2 % 2], 50 + number))
    (folder / "videos" / "pans").mkdir(parents=True)
    for number in range(2):
        write_video(folder / "videos" / "pans" / f"{number}.mp4", pan(8, (48, 64), seed=number))


def _png(height: int, width: int, seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    with io.BytesIO() as file:
        Image.fromarray(pixels).save(file, "PNG")
        return file.getvalue()


def write(folder: Path) -> None:
    """Write all of it into an empty folder."""
    data = folder / "data"
    data.mkdir(parents=True)
    write_data(data)
    told = {}
    for name, run_of in RUNS.items():
        run = run_of(data)
        steps = batches(run)
        for _batch in islice(steps, STOPPED_AFTER):
            state = run.state_dict()
        told[name] = {"state": json.loads(json.dumps(state)), "rest": followed(steps, name)}
    (folder / "states.json").write_text(json.dumps(told, indent=1) + "\n")
    audited = loader(tars(data), monitoring=Monitoring(audit=folder / "audit.jsonl"))
    for _batch in islice(batches(audited), STOPPED_AFTER):
        pass
    for name, recipe in SAVED.items():
        recipe.save(folder / name)
    prints = {name: recipe.fingerprint for name, recipe in SAVED.items()}
    (folder / "fingerprints.json").write_text(json.dumps(prints, indent=1) + "\n")
    plan = plan_shards(str(data / "photos"), folder / "packed", bytes_per_shard=12_000, shuffle=0)
    for number in range(len(plan)):
        make_shard(plan, number)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        write(Path(made) / "states")
        shutil.copytree(Path(made) / "states", sys.argv[1])
