"""Compare LeRobot datasets, read here, with the items of lerobot's own class.

    python -m tests.support.check_lerobot FOLDER --lerobot PYTHON [--only NAME ...]

PYTHON is the interpreter of an environment with lerobot (its versions of torch and PyAV exclude ours), and for the decoder torchcodec with
FFmpeg's libraries. lerobot writes datasets into the folder and saves the items of its class (tests/support/lerobot_side.py). All values
must be equal in type, shape and content, by `fetch` and in the batches of a `Loader`; each pixel must be within 3 of 255 (pictures in
tables: equal; distances within 1e-6 m), because chroma is converted by other arithmetic, see dali_pipes/video/color.py. The neighbouring frame must differ by more
than ten times as much, so that the comparison can fail. The tests do not need lerobot.
"""

import argparse
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dali_pipes import Loader
from gpu_aug import Recipe, Resize
from readers import Sample, open_dataset

SIDE = Path(__file__).with_name("lerobot_side.py")
TOP, WRIST, DEPTH = "observation.images.top", "observation.images.wrist", "observation.depth"
SIZES = {TOP: (96, 128), WRIST: (64, 80)}
TOLERANCE = 3
# lerobot's encoder of HEVC fails for two frames, and its concatenation loses a frame after an odd number of them.
EVEN_LENGTHS = [8, 4, 12, 6, 4]
DATASETS: dict[str, dict[str, Any]] = {
    "av1": {},
    "av1-streaming": {"streaming": True, "small_files": True},
    "h264": {"codec": "h264", "small_files": True, "subtasks": True},
    "hevc": {"codec": "hevc", "lengths": EVEN_LENGTHS},
    "image": {"kind": "image", "small_files": True, "subtasks": True},
}
# lerobot 0.6 or newer writes these.
WITH_DEPTH: dict[str, dict[str, Any]] = {
    "depth-log": {"lengths": EVEN_LENGTHS, "depth": {"kind": "video", "dtype": "uint16"}},
    "depth-linear": {
        "lengths": EVEN_LENGTHS,
        "small_files": True,
        "depth": {
            "kind": "video",
            "dtype": "float32",
            "encoder": {"use_log": False, "depth_max": 5.0},
        },
    },
    "depth-image": {"kind": "image", "depth": {"kind": "image", "dtype": "uint16"}},
}
EVERY = DATASETS | WITH_DEPTH
METRES = 1e-6  # the logarithm of torch and NumPy
WINDOWS: dict[str, dict[str, list[float]] | None] = {
    "single frames": None,
    "windows": {
        TOP: [-0.3, -0.1, 0.0],
        WRIST: [0.0, 0.1, 0.5],
        "observation.state": [-0.1, 0.0],
        "action": [0.1 * step for step in range(16)],  # longer than three of the episodes
        "grid": [-0.2],
        "a.bool": [0.0, 0.1],
        "a.uint16": [-0.1, 0.3],
        "next.done": [0.0, 0.1],
        "five": [0.0, 0.1],
    },
}
EPISODES: tuple[list[int] | None, ...] = (None, [1, 4])
Items = dict[str, NDArray[Any]]


def main() -> None:
    """Write, compare and print the results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lerobot", required=True, help="Python of an environment with lerobot")
    parser.add_argument("--only", nargs="*", default=list(DATASETS), choices=list(EVERY))
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    for name in given.only:
        root = given.folder / name
        if not root.exists():
            run_lerobot(given.lerobot, "write", root, EVERY[name])
        for mode in ("mean_std", "min_max", "quantiles"):
            out = given.folder / "normalized.npz"
            run_lerobot(given.lerobot, "normalized", root, {"mode": mode}, out)
            with np.load(out) as stored:
                compare_normalized(root, dict(stored), mode)
        for episodes in EPISODES:
            for words, deltas in WINDOWS.items():
                out = given.folder / "items.npz"
                ask = {"episodes": episodes, "deltas": deltas}
                run_lerobot(given.lerobot, "dump", root, ask, out)
                with np.load(out) as stored:
                    theirs = dict(stored)
                off = compare(root, theirs, episodes, deltas)
                limit = 0 if EVERY[name].get("kind") == "image" else TOLERANCE
                if off > limit:
                    raise SystemExit(f"{name}: pixels differ by {off}, at most {limit} is allowed")
                sys.stdout.write(
                    f"{name}, episodes={episodes}, {words}: {len(theirs['rows'])} items that lerobot can read, all values equal, pixels "
                    f"differ by at most {off}\n"
                )
                sys.stdout.flush()


def run_lerobot(python: str, do: str, root: Path, options: Any, *out: Path) -> None:
    """Run a command of tests/support/lerobot_side.py in the environment of another interpreter.

    Raises:
        SystemExit: The command failed; with its output.
    """
    command = [python, "-P", str(SIDE), do, str(root), json.dumps(options), *map(str, out)]
    # Our paths must not lead the other interpreter to our packages.
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, env=clean, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")


def compare(
    root: Path, theirs: Items, episodes: list[int] | None, deltas: dict[str, list[float]] | None
) -> int:
    """Compare all items that lerobot can read; return the largest difference of a pixel.

    Raises:
        SystemExit: A value differs, or is missing on one side.
    """
    ours = open_dataset(root, episodes=episodes, delta_timestamps=deltas)
    rows = theirs["rows"]
    names = [name for name in theirs if name not in (*SIZES, DEPTH, "rows")]
    fetched = ours.fetch(range(len(ours)))
    _require(all(isinstance(one, Sample) for one in fetched), f"{root} has bad samples: {fetched}")
    for at, row in enumerate(rows.tolist()):
        for name in names:
            payload, wanted = bytes(fetched[row].fields[name]), theirs[name][at]
            is_text = wanted.dtype.kind == "U"
            found = np.array(payload.decode()) if is_text else np.load(io.BytesIO(payload))
            _same(name, row, found, wanted)
    _compare_batches(ours, theirs, names)
    if DEPTH in theirs:
        _compare_depth(ours, theirs)
    worst = 0
    for camera, size in SIZES.items():
        own = {name: each for name, each in (deltas or {}).items() if name == camera}
        alone = open_dataset(root, episodes=episodes, cameras=camera, delta_timestamps=own)
        loader = Loader.eval(alone, Recipe([Resize(size)]), batch_size=5, dtype=torch.uint8)
        pictures = torch.cat([batch.images for batch in loader]).numpy().astype(np.int16)
        wanted = theirs[camera].astype(np.int16)
        found = pictures[rows]
        _require(found.shape == wanted.shape, f"{camera}: {found.shape} is not {wanted.shape}")
        worst = max(worst, int(np.abs(found - wanted).max()))
        # Negative control: the next item's pictures do not pass for these.
        other = np.abs(np.roll(pictures, -1, 0)[rows] - wanted).reshape(len(rows), -1).max(1)
        _require(other.min() > 10 * TOLERANCE, f"{camera}: the pictures of neighbours look alike")
    return worst


def compare_normalized(root: Path, theirs: Items, mode: Any) -> None:
    """Compare normalized states and actions, and the inverse, with lerobot's processors, bit for bit.

    Raises:
        SystemExit: A value differs.
    """
    ours = open_dataset(root, normalize=mode)
    for row, sample in enumerate(ours.fetch(range(len(ours)))):
        _require(isinstance(sample, Sample), f"{root} has a bad sample: {sample}")
        for name in ("observation.state", "action"):
            found = np.load(io.BytesIO(bytes(sample.fields[name])))
            _same(f"{mode} of {name}", row, found, theirs[name][row])
        inverse = ours.denormalize("action", theirs["action"][row])
        _same(f"inverse of {mode}", row, inverse, theirs["inverse"][row])


def _compare_depth(ours: Any, theirs: Items) -> None:
    loader = Loader.eval(ours, Recipe([Resize(theirs[DEPTH].shape[-2:])]), batch_size=7)
    metres = torch.cat([batch[DEPTH] for batch in loader]).numpy()[theirs["rows"]]
    wanted = theirs[DEPTH].reshape(metres.shape)
    off = float(np.abs(metres - wanted).max())
    _require(off <= METRES, f"{DEPTH}: distances differ by {off} m")
    other = np.abs(np.roll(metres, -1, 0) - wanted).reshape(len(wanted), -1).max(1)
    _require(other.min() > 1000 * METRES, f"{DEPTH}: the distances of neighbours look alike")


def _compare_batches(ours: Any, theirs: Items, names: list[str]) -> None:
    at_row = {row: at for at, row in enumerate(theirs["rows"].tolist())}
    loader = Loader.eval(ours, Recipe([Resize((8, 8))]), batch_size=7, fields=names)
    for batch in loader:
        for at, row in enumerate(batch.indices.tolist()):
            for name in names if row in at_row else []:
                wanted = theirs[name][at_row[row]]
                _same(name, row, np.asarray(batch.fields[name][at]), wanted)


def _same(name: str, row: int, found: NDArray[Any], wanted: NDArray[Any]) -> None:
    if wanted.dtype.kind != "U":
        # lerobot makes tensors of Python's numbers, which have the types int64 and float32; here they have the declared type.
        kind = wanted.dtype.kind
        same = found.dtype.kind in ("iu" if kind == "i" else kind)
        _require(same, f"{name}: {found.dtype} cannot be {wanted.dtype} there")
        found = found.astype(wanted.dtype)
    _require(found.shape == wanted.shape, f"{name}: {found.shape} is not {wanted.shape}")
    _require(np.array_equal(found, wanted), f"{name} of item {row}: {found} is not {wanted}")


def _require(holds: bool, reason: str) -> None:
    if not holds:
        raise SystemExit(reason)


if __name__ == "__main__":
    main()
