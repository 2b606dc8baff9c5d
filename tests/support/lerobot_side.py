"""Write LeRobot datasets with lerobot, and save the items that lerobot's own class returns.

A program for the interpreter of an environment with lerobot (0.4.4, or 0.6 with Python 3.12); it imports nothing of this
repository (-P keeps the file lerobot.py beside it from hiding the package):

    python -P tests/support/lerobot_side.py write FOLDER '{"codec": "h264"}'
    python -P tests/support/lerobot_side.py dump FOLDER '{"episodes": [1], "deltas": {"action": [0.0, 0.1]}}' ITEMS.npz
    python -P tests/support/lerobot_side.py normalized FOLDER '{"mode": "mean_std"}' ITEMS.npz
    python -P tests/support/lerobot_side.py batches FOLDER '{"order": [[3, 1], [0, 2]], "deltas": {}}' BATCHES.npz
"""

import importlib.util
import inspect
import json
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def _use_ffmpeg_of_pyav() -> None:
    """Start this program again so that torchcodec, which brings no FFmpeg, finds the libraries in PyAV's wheel."""
    spec = importlib.util.find_spec("av")
    if spec is None or spec.origin is None or "LD_LIBRARY_PATH" in os.environ:
        return
    folder = tempfile.mkdtemp()
    # libavutil-a63ffd27.so.59.39.100 there is what torchcodec calls libavutil.so.59.
    for path in (Path(spec.origin).parents[1] / "av.libs").glob("lib*.so.*"):
        name, _, version = path.name.partition(".so.")
        link = Path(folder) / f"{name.rpartition('-')[0]}.so.{version.partition('.')[0]}"
        link.unlink(missing_ok=True)
        link.symlink_to(path)
    os.environ["LD_LIBRARY_PATH"] = folder
    os.execv(sys.executable, [sys.executable, "-P", *sys.argv])


if __name__ == "__main__":
    _use_ffmpeg_of_pyav()
os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np  # noqa: E402
import torch  # noqa: E402
from lerobot.datasets.lerobot_dataset import LeRobotDataset  # noqa: E402
from lerobot.datasets.video_utils import FrameTimestampError  # noqa: E402

FPS = 10
TOP, WRIST, DEPTH = "observation.images.top", "observation.images.wrist", "observation.depth"
SIZES = {TOP: (96, 128), WRIST: (64, 80)}
LENGTHS = (7, 4, 11, 2, 9)
SUBTASKS = ("reach", "grasp", "öffnen")
# One feature per dtype, and per number of dimensions that lerobot stores in another way (it has up to five).
NUMBERS: dict[str, tuple[str, tuple[int, ...]]] = {
    "observation.state": ("float32", (3,)),
    "action": ("float32", (3,)),
    "grid": ("int64", (2, 3)),
    "next.done": ("bool", (1,)),
    "next.reward": ("float64", (1,)),
    "a.int8": ("int8", (2,)),
    "a.int16": ("int16", (1,)),
    "a.int32": ("int32", (3,)),
    "a.uint8": ("uint8", (2, 2)),
    "a.uint16": ("uint16", (1,)),
    "a.uint32": ("uint32", (2,)),
    "a.uint64": ("uint64", (1,)),
    "a.float16": ("float16", (2,)),
    "a.bool": ("bool", (3,)),
    "three": ("float32", (2, 3, 2)),
    "four": ("int32", (2, 1, 3, 2)),
    "five": ("float64", (1, 2, 1, 3, 2)),
    "one by one": ("float32", (1, 1)),
}


def main(do: str, root: str, text: str, out: str = "") -> None:
    """Run one of the commands in the description of this file; `text` is JSON, of options or of the path of a file with them."""
    options = json.loads(text)
    if isinstance(options, str):
        options = json.loads(Path(options).read_text())
    if do == "write":
        write(Path(root), **options)
    else:
        made = {"dump": items, "normalized": normalized, "batches": batches}[do](
            Path(root), **options
        )
        np.savez(out, **made)


def write(
    root: Path,
    *,
    codec: str = "libsvtav1",
    kind: str = "video",
    small_files: bool = False,
    subtasks: bool = False,
    streaming: bool = False,
    depth: dict[str, Any] | None = None,
    lengths: Sequence[int] = LENGTHS,
) -> None:
    """Write a dataset.

    Args:
        root: The folder, which must not exist.
        codec: Encoder of the videos.
        kind: "video", or "image" for pictures in tables.
        small_files: Begin a file, two per chunk, with each episode.
        subtasks: Add `subtask_index` and meta/subtasks.parquet.
        streaming: Encode the frames as they come.
        depth: Add a depth camera, which needs lerobot 0.6: {"kind": "video" or "image", "dtype": "uint16" for
            millimetres or "float32" for metres, "encoder": arguments of DepthEncoderConfig}.
        lengths: Frames of each episode.
    """
    features: dict[str, Any] = {
        name: {"dtype": dtype, "shape": shape, "names": None}
        for name, (dtype, shape) in NUMBERS.items()
    }
    features["note"] = {"dtype": "string", "shape": (1,), "names": None}
    if subtasks:
        features["subtask_index"] = {"dtype": "int64", "shape": (1,), "names": None}
    for name, size in SIZES.items():
        features[name] = {
            "dtype": kind,
            "shape": (*size, 3),
            "names": ["height", "width", "channels"],
        }
    if depth:
        features[DEPTH] = {
            "dtype": depth["kind"],
            "shape": (48, 64, 1),
            "names": ["height", "width", "channels"],
            "info": {"is_depth_map": True},
        }
    options: dict[str, Any] = {"use_videos": kind == "video", "streaming_encoding": streaming}
    parameters = inspect.signature(LeRobotDataset.create).parameters
    if "vcodec" in parameters:
        options["vcodec"] = codec
    elif kind == "video":
        from lerobot.configs.video import RGBEncoderConfig

        options["rgb_encoder"] = RGBEncoderConfig(vcodec=codec)
    if depth and depth["kind"] == "video":
        from lerobot.configs.video import DepthEncoderConfig

        options["depth_encoder"] = DepthEncoderConfig(**depth.get("encoder", {}))
    made = LeRobotDataset.create("me/made", FPS, features, root=root, **options)
    if small_files:
        made.meta.update_chunk_settings(
            chunks_size=2, data_files_size_in_mb=1e-4, video_files_size_in_mb=1e-4
        )
    count = 0
    for episode, length in enumerate(lengths):
        for step in range(length):
            made.add_frame(_frame(count, episode, step, subtasks, depth or {}))
            count += 1
        made.save_episode()
    made.finalize()
    if subtasks:
        import pandas as pd

        table = pd.DataFrame({"subtask_index": range(len(SUBTASKS))}, index=list(SUBTASKS))
        table.to_parquet(root / "meta/subtasks.parquet")


def _frame(
    count: int, episode: int, step: int, subtasks: bool, depth: dict[str, Any]
) -> dict[str, Any]:
    rng = np.random.default_rng(count)
    frame: dict[str, Any] = {}
    for name, (dtype, shape) in NUMBERS.items():
        top = 2 if dtype == "bool" else 100
        frame[name] = (rng.integers(0, top, shape) + (0 if dtype == "bool" else count)).astype(
            dtype
        )
    if subtasks:
        frame["subtask_index"] = np.array([count % len(SUBTASKS)])
    frame["note"] = f"note {count}"
    frame["task"] = f"task {(3 - episode) % 3}" if step % 4 else "öffne die Tür"
    for name, (height, width) in SIZES.items():
        # A smooth picture over which the camera moves, so that each frame differs from the next.
        rows = np.arange(height)[:, None] + 3 * count
        columns = np.arange(width)[None] + 5 * count
        waves = [rows / 9 + columns / 17, rows / 23 - columns / 7, (rows + columns) / 13]
        frame[name] = np.stack([127 + 120 * np.sin(one) for one in waves], -1).astype(np.uint8)
    if depth:
        rows, columns = np.mgrid[:48, :64]
        millimetres = 500 + 60 * rows + 7 * columns + 40 * count
        is_mm = depth["dtype"] == "uint16"
        frame[DEPTH] = (millimetres / (1 if is_mm else 1000)).astype(depth["dtype"])[..., None]
    return frame


def items(
    root: Path,
    *,
    episodes: list[int] | None = None,
    deltas: dict[str, list[float]] | None = None,
    indices: list[int] | None = None,
) -> dict[str, Any]:
    """Return the items of a dataset, stacked by name: text as str [N], pictures as uint8 [N, T, 3, H, W].

    Depth stays as lerobot returns it, in metres. "rows", int64 [N], has the indices of the items: those that lerobot
    cannot decode are left out. Its decoders lose pictures of HEVC that a keyframe precedes in the file and follows in time.
    """
    options: dict[str, Any] = {"episodes": episodes, "delta_timestamps": deltas}
    if "depth_output_unit" in inspect.signature(LeRobotDataset).parameters:
        options["depth_output_unit"] = "m"
    dataset = LeRobotDataset("me/made", root=root, video_backend="torchcodec", **options)
    values = defaultdict(list)
    for index in range(len(dataset)) if indices is None else indices:
        try:
            item = dataset[index]
        except (FrameTimestampError, RuntimeError):
            continue
        values["rows"].append(np.array(index))
        for name, value in item.items():
            is_rgb = name in dataset.meta.camera_keys and value.shape[-3] == 3
            if is_rgb:
                value = (value * 255).round().to(torch.uint8).reshape(-1, *value.shape[-3:])
            values[name].append(np.asarray(value))
    return {name: np.stack(ones) for name, ones in values.items()}


def normalized(root: Path, *, mode: str) -> dict[str, Any]:
    """Return normalized states and actions of all items by name, and under "inverse" the actions that the inverse gives."""
    from lerobot.configs.types import FeatureType, NormalizationMode, PolicyFeature
    from lerobot.processor import (
        NormalizerProcessorStep,
        TransitionKey,
        UnnormalizerProcessorStep,
        create_transition,
    )

    kinds = {"observation.state": FeatureType.STATE, "action": FeatureType.ACTION}
    dataset = LeRobotDataset("me/made", root=root)
    features = {name: PolicyFeature(type=kind, shape=(3,)) for name, kind in kinds.items()}
    modes = dict.fromkeys(kinds.values(), NormalizationMode(mode.upper()))
    there = NormalizerProcessorStep(features, modes, dataset.meta.stats)
    back = UnnormalizerProcessorStep(features, modes, dataset.meta.stats)
    values = defaultdict(list)
    for item in dataset.hf_dataset:
        observation = {"observation.state": item["observation.state"]}
        made = there(create_transition(observation=observation, action=item["action"]))
        state, action = made[TransitionKey.OBSERVATION], made[TransitionKey.ACTION]
        values["observation.state"].append(state["observation.state"].numpy())
        values["action"].append(action.numpy())
        inverse = back(create_transition(action=action))[TransitionKey.ACTION]
        values["inverse"].append(inverse.numpy())
    return {name: np.stack(ones) for name, ones in values.items()}


def batches(
    root: Path, *, order: list[list[int]], deltas: dict[str, list[float]]
) -> dict[str, Any]:
    """Return the batches of a DataLoader over lerobot's class, as arrays ``STEP/NAME``; pictures as uint8.

    Args:
        root: The folder.
        order: Indices of the items of each batch.
        deltas: See LeRobotDataset.
    """
    dataset = LeRobotDataset("me/made", root=root, delta_timestamps=deltas)
    loader = torch.utils.data.DataLoader(dataset, batch_sampler=order)
    made = {}
    for step, batch in enumerate(loader):
        for name, value in batch.items():
            if name in dataset.meta.camera_keys:
                # Without loss: lerobot divides the decoded uint8 by 255.
                value = (value * 255).round().to(torch.uint8)
            if isinstance(value, torch.Tensor):
                made[f"{step}/{name}"] = value.numpy()
    return made


if __name__ == "__main__":
    main(*sys.argv[1:])
