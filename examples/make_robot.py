"""Make a small LeRobot dataset, in which an arm reaches for a coloured disc: python examples/make_robot.py reaching/.

It has the layout of version 3.0: pyarrow writes the tables, PyAV the videos, and lerobot's own class reads it, too.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FPS = 10
SIDE = 64
LENGTH = 25
SHAKE = 0.006  # of the hand that shows the way, a third of the deviation of all actions
CAMERAS = ("observation.images.top", "observation.images.wrist")
TASK = "reach the disc"
_FILE = "chunk-000/file-000"
# lerobot reads the table of tasks with pandas and looks the texts up in its index.
_TEXTS_ARE_INDEX = {
    "index_columns": ["task"],
    "column_indexes": [],
    "columns": [
        {
            "name": name,
            "field_name": name,
            "pandas_type": kind,
            "numpy_type": kind,
            "metadata": None,
        }
        for name, kind in (("task_index", "int64"), ("task", "object"))
    ],
}


def make_robot(folder: Path, num_episodes: int = 24) -> Path:
    """Write episodes of 25 frames: two cameras of 64 x 64 pixels, the arm's position and the speed it is given.

    Both are [x, y] from 0 to 1. The disc appears in the pictures only: a policy must look to know where to go.
    """
    rng = np.random.default_rng(0)
    ground = rng.integers(60, 120, (2 * SIDE, 2 * SIDE, 3)).astype(np.uint8)
    states, actions, pictures = [], [], {camera: [] for camera in CAMERAS}
    for _ in range(num_episodes):
        arm, disc = rng.uniform(0.1, 0.9, (2, 2)).astype(np.float32)
        for _ in range(LENGTH):
            speed = (disc - arm) * np.float32(0.15) + rng.normal(0, SHAKE, 2).astype(np.float32)
            states.append(arm)
            actions.append(speed)
            pictures[CAMERAS[0]].append(_picture(ground, np.zeros(2), disc))
            pictures[CAMERAS[1]].append(_picture(ground, arm - 0.5, disc))
            arm = arm + speed
    values = {"observation.state": np.stack(states), "action": np.stack(actions)}
    for camera in CAMERAS:
        _write_video(folder / f"videos/{camera}/{_FILE}.mp4", pictures[camera])
    _write_tables(folder, values, num_episodes)
    return folder


def _picture(
    ground: NDArray[np.uint8], corner: NDArray[Any], disc: NDArray[np.float32]
) -> NDArray[np.uint8]:
    """Return what a camera sees whose upper left corner lies at `corner`: uint8 [64, 64, 3]."""
    left, top = np.rint((corner + 0.5) * SIDE / 2).astype(int)
    picture = ground[top : top + SIDE, left : left + SIDE].copy()
    x, y = (disc - corner) * SIDE
    rows, columns = np.mgrid[:SIDE, :SIDE]
    picture[(rows - y) ** 2 + (columns - x) ** 2 < 49] = (230, 60, 40)
    return picture


def _write_video(path: Path, frames: Sequence[NDArray[np.uint8]]) -> None:
    import av

    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=FPS, options={"crf": "18"})
        stream.height = stream.width = SIDE
        stream.pix_fmt = "yuv420p"
        # lerobot also writes a keyframe in every second frame, for access to single frames.
        stream.codec_context.gop_size = 2
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())


def _write_tables(folder: Path, values: dict[str, NDArray[Any]], num_episodes: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    count = num_episodes * LENGTH
    index, starts = np.arange(count), LENGTH * np.arange(num_episodes)
    numbers = {
        "timestamp": (index % LENGTH / FPS).astype(np.float32),
        "frame_index": index % LENGTH,
        "episode_index": index // LENGTH,
        "index": index,
        "task_index": np.zeros(count, np.int64),
    }
    frames: dict[str, Any] = {
        name: pa.FixedSizeListArray.from_arrays(pa.array(each.ravel()), each.shape[1])
        for name, each in values.items()
    }
    zeros = np.zeros(num_episodes, np.int64)
    episodes: dict[str, Any] = {
        "episode_index": np.arange(num_episodes),
        "tasks": [[TASK]] * num_episodes,
        "length": np.full(num_episodes, LENGTH),
        "data/chunk_index": zeros,
        "data/file_index": zeros,
        "dataset_from_index": starts,
        "dataset_to_index": starts + LENGTH,
        "meta/episodes/chunk_index": zeros,
        "meta/episodes/file_index": zeros,
    }
    for camera in CAMERAS:
        places = {"chunk_index": zeros, "file_index": zeros, "from_timestamp": starts / FPS}
        places["to_timestamp"] = (starts + LENGTH) / FPS
        episodes |= {f"videos/{camera}/{name}": each for name, each in places.items()}
    tables = {
        f"data/{_FILE}": frames | numbers,
        f"meta/episodes/{_FILE}": episodes,
        "meta/tasks": {"task_index": [0], "task": [TASK]},
    }
    for name, columns in tables.items():
        path = folder / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        table = pa.table(columns)
        if name == "meta/tasks":
            table = table.replace_schema_metadata({"pandas": json.dumps(_TEXTS_ARE_INDEX)})
        pq.write_table(table, path)
    _write_info(folder, values, numbers, num_episodes)


def _write_info(
    folder: Path, values: dict[str, NDArray[Any]], numbers: dict[str, NDArray[Any]], episodes: int
) -> None:
    features: dict[str, Any] = {
        name: {"dtype": each.dtype.name, "shape": list(each.shape[1:]) or [1], "names": None}
        for name, each in (values | numbers).items()
    }
    for camera in CAMERAS:
        names = ["height", "width", "channels"]
        features[camera] = {"dtype": "video", "shape": [SIDE, SIDE, 3], "names": names}
    info = {
        "codebase_version": "v3.0",
        "robot_type": None,
        "total_episodes": episodes,
        "total_frames": episodes * LENGTH,
        "total_tasks": 1,
        "chunks_size": 1000,
        "data_files_size_in_mb": 100,
        "video_files_size_in_mb": 200,
        "fps": FPS,
        "splits": {"train": f"0:{episodes}"},
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
        "features": features,
    }
    stats = {
        name: {
            "min": each.min(0).tolist(),
            "max": each.max(0).tolist(),
            "mean": each.mean(0).tolist(),
            "std": each.std(0).tolist(),
            "count": [len(each)],
        }
        for name, each in values.items()
    }
    for name, content in {"info": info, "stats": stats}.items():
        (folder / f"meta/{name}.json").write_text(json.dumps(content, indent=2))


def main(argv: Sequence[str] | None = None) -> None:
    """Write into the folder that the command line names."""
    options = argparse.ArgumentParser()
    options.add_argument("folder", type=Path)
    make_robot(options.parse_args(argv).folder)


if __name__ == "__main__":
    main()
