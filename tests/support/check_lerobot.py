"""Compare LeRobot datasets, read here, with what lerobot itself gives: python -m tests.support.check_lerobot FOLDER.

It needs the package lerobot (0.4.4) and, for its decoder torchcodec, FFmpeg's libraries; the tests need neither.
Two datasets are written by lerobot into the folder, one with videos in its default codec (SVT-AV1, a keyframe in
every second frame), one with pictures in tables. Of every frame, with and without delta_timestamps, of all episodes
and of some, every value must be equal, and every pixel within 3 of 255: chroma is converted by other arithmetic, see
dali_pipes/video/color.py. The frame beside it must differ by more, or nothing would be shown.
"""

import io
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dali_pipes import Loader
from gpu_aug import Recipe, Resize
from readers import Sample, open_dataset
from tests.support.jpegs import picture

os.environ.setdefault("HF_HUB_OFFLINE", "1")
FPS = 10
SIZES = {"observation.images.top": (96, 128), "observation.images.wrist": (64, 80)}
LENGTHS = (7, 4, 11, 2, 9)
DELTAS = {
    "observation.images.top": [-0.3, -0.1, 0.0],
    "observation.images.wrist": [0.0, 0.1],
    "observation.state": [-0.1, 0.0],
    "action": [0.1 * step for step in range(6)],
}
TOLERANCE = 3


def write(root: Path, kind: str) -> None:
    """Write a dataset with lerobot."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    vector = {"dtype": "float32", "shape": (3,), "names": ["x", "y", "z"]}
    features: dict[str, Any] = {
        "observation.state": vector,
        "action": vector,
        "grid": {"dtype": "int64", "shape": (2, 3), "names": None},
    }
    for name, size in SIZES.items():
        features[name] = {
            "dtype": kind,
            "shape": (*size, 3),
            "names": ["height", "width", "channels"],
        }
    made = LeRobotDataset.create("me/made", FPS, features, root=root, use_videos=kind == "video")
    stills = {name: picture(h + 40, w + 80, 7) for name, (h, w) in SIZES.items()}
    count = 0
    for episode, length in enumerate(LENGTHS):
        for step in range(length):
            frame: dict[str, Any] = {
                "observation.state": np.array([episode, step, count], np.float32),
                "action": np.array([count, -step, 0.5], np.float32),
                "grid": np.arange(6).reshape(2, 3) + count,
                "task": f"task {(3 - episode) % 3}",
            }
            for name, (h, w) in SIZES.items():
                frame[name] = stills[name][count % 40 :, 2 * (count % 40) :][:h, :w].copy()
            made.add_frame(frame)
            count += 1
        made.save_episode()
    made.finalize()


def compare(root: Path, episodes: list[int] | None, deltas: dict[str, list[float]] | None) -> int:
    """Compare every frame of a dataset, and return by how much the pixels differ at most."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    theirs = LeRobotDataset(
        "me/made", root=root, episodes=episodes, delta_timestamps=deltas, video_backend="torchcodec"
    )
    ours = open_dataset(root, episodes=episodes, delta_timestamps=deltas)
    assert len(ours) == len(theirs), (len(ours), len(theirs))
    worst = 0
    for camera, size in SIZES.items():
        alone = open_dataset(
            root,
            episodes=episodes,
            cameras=camera,
            delta_timestamps={k: v for k, v in (deltas or {}).items() if k == camera},
        )
        loader = Loader.eval(alone, Recipe([Resize(size)]), batch_size=5, dtype=torch.uint8)
        pictures = torch.cat([batch.images for batch in loader])
        for index in range(len(ours)):
            wanted = (theirs[index][camera] * 255).round().to(torch.int32).reshape(-1, 3, *size)
            worst = max(worst, int((pictures[index].to(torch.int32) - wanted).abs().max()))
            other = pictures[(index + 1) % len(ours)].to(torch.int32)
            assert int((other - wanted).abs().max()) > 10 * TOLERANCE
    for index in range(len(ours)):
        [sample] = ours.fetch([index])
        assert isinstance(sample, Sample), sample
        _compare_values(sample, theirs[index])
    return worst


def _compare_values(sample: Sample, item: dict[str, Any]) -> None:
    for name, wanted in item.items():
        if name in SIZES:
            continue
        payload = bytes(sample.fields[name])
        if isinstance(wanted, str):
            assert payload.decode() == wanted, (name, payload, wanted)
            continue
        found = np.load(io.BytesIO(payload))
        wanted = np.asarray(wanted)
        assert found.dtype == wanted.dtype, (name, found.dtype, wanted.dtype)
        assert found.shape == wanted.shape, (name, found.shape, wanted.shape)
        assert np.array_equal(found, wanted), (name, found, wanted)


def compare_normalization(root: Path) -> None:
    """Compare normalized states and actions, and the inverse, with lerobot's processors, bit for bit."""
    from lerobot.configs.types import FeatureType, NormalizationMode, PolicyFeature
    from lerobot.datasets.lerobot_dataset import LeRobotDataset
    from lerobot.processor import (
        NormalizerProcessorStep,
        UnnormalizerProcessorStep,
        create_transition,
    )
    from lerobot.processor.core import TransitionKey

    kinds = {"observation.state": FeatureType.STATE, "action": FeatureType.ACTION}
    deltas = {name: DELTAS[name] for name in kinds}
    theirs = LeRobotDataset(
        "me/made", root=root, delta_timestamps=deltas, video_backend="torchcodec"
    )
    features = {name: PolicyFeature(type=kind, shape=(3,)) for name, kind in kinds.items()}
    for mode in ("mean_std", "min_max", "quantiles"):
        modes = dict.fromkeys(kinds.values(), NormalizationMode(mode.upper()))
        step = NormalizerProcessorStep(features, modes, theirs.meta.stats)
        back = UnnormalizerProcessorStep(features, modes, theirs.meta.stats)
        ours = open_dataset(root, delta_timestamps=deltas, normalize=mode)
        for index in range(len(ours)):
            row = theirs.hf_dataset[index]
            queries, _ = theirs._get_query_indices(index, int(row["episode_index"]))
            item = {name: torch.stack(theirs.hf_dataset[queries[name]][name]) for name in kinds}
            made = step(
                create_transition(
                    observation={"observation.state": item["observation.state"]},
                    action=item["action"],
                )
            )
            wanted = {
                "observation.state": made[TransitionKey.OBSERVATION]["observation.state"],
                "action": made[TransitionKey.ACTION],
            }
            [sample] = ours.fetch([index])
            assert isinstance(sample, Sample), sample
            for name, value in wanted.items():
                found = torch.from_numpy(np.load(io.BytesIO(bytes(sample.fields[name]))))
                assert torch.equal(found, value), (mode, name, found, value)
            again = back(create_transition(action=wanted["action"]))[TransitionKey.ACTION]
            assert torch.equal(ours.denormalize("action", wanted["action"]), again), (mode, again)


def main(folder: Path) -> None:
    """Write and compare, and print what was found."""
    for kind in ("video", "image"):
        root = folder / kind
        if not root.exists():
            write(root, kind)
        compare_normalization(root)
        sys.stdout.write(f"{kind}: all normalized values equal\n")
        for episodes in (None, [1, 4]):
            for deltas in (None, DELTAS):
                worst = compare(root, episodes, deltas)
                assert worst <= (TOLERANCE if kind == "video" else 0), worst
                told = f"{kind}, episodes={episodes}, windows={deltas is not None}"
                sys.stdout.write(f"{told}: all values equal, pixels differ by at most {worst}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
