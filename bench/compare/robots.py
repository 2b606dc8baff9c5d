"""``python -m bench.compare.robots OUT``: make a LeRobot dataset of version 3.0 like those that robots record.

Cameras pan over photographs, smoothly and with noise. Videos and tables hold several episodes per file. Codecs and
their options are the defaults of lerobot 0.4: SVT-AV1 or H.264 with a keyframe in every second frame.
"""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from bench.compare.photographs import encode_video, enlarge, shipped_photographs, walk
from bench.output import errors

FPS = 30
CAMERAS = ("observation.images.top", "observation.images.wrist")
TASKS = ("pick up the cup", "open the drawer")

_ENCODERS = {
    "av1": ("libsvtav1", {"g": "2", "crf": "30", "preset": "12"}),
    "h264": ("libx264", {"g": "2", "crf": "23"}),
}
_NUM_JOINTS = 6
_PLACE = "chunk-{chunk_index:03d}/file-{file_index:03d}"
_SAMPLED_FRAMES, _SAMPLED_PIXELS = 10, 16  # every Nth frame and pixel counts in the statistics
_QUANTILES = (1, 10, 50, 90, 99)  # percent, as lerobot computes


def make_robots(
    out: Path,
    *,
    codec: str = "av1",
    episodes: int = 50,
    seconds: float = 10.0,
    size: tuple[int, int] = (480, 640),
    episodes_per_file: int = 10,
    seed: int = 0,
) -> int:
    """Write a dataset with two cameras, a state and an action; a seed always gives equal values and pictures.

    Args:
        out: The folder of the dataset.
        codec: "av1" or "h264".
        episodes: Count of episodes.
        seconds: Length of each episode in seconds.
        size: (height, width) of the pictures in pixels, both even.
        episodes_per_file: Count of episodes in each video and table.
        seed: Seed of the cameras' paths, the noise and the values.

    Returns:
        The count of frames per camera.

    Raises:
        BenchError: A number is invalid, or scikit-image or PyAV is not installed.
    """
    errors.require_above_zero(
        episodes=episodes, seconds=seconds, size=min(size), episodes_per_file=episodes_per_file
    )
    encoder, options = errors.choose("codec", codec, _ENCODERS)
    os.environ.setdefault("SVT_LOG", "1")  # otherwise SVT-AV1 prints its settings for each video
    length = max(1, round(seconds * FPS))
    stills = [path for paths in shipped_photographs().values() for path in paths]
    stats: dict[str, Any] = {}
    for number, camera in enumerate(CAMERAS):
        pixels: list[NDArray[np.uint8]] = []

        def frames(
            first: int, number: int = number, pixels: list[NDArray[np.uint8]] = pixels
        ) -> Iterator[NDArray[np.uint8]]:
            for episode in range(first, min(first + episodes_per_file, episodes)):
                still = enlarge(stills[(episode + 3 * number) % len(stills)], size)
                rng = np.random.default_rng((seed, episode, number))
                for step, frame in enumerate(walk(still, size, length, rng)):
                    if step % _SAMPLED_FRAMES == 0:
                        pixels.append(frame[::_SAMPLED_PIXELS, ::_SAMPLED_PIXELS].reshape(-1, 3))
                    yield frame

        for file, first in enumerate(range(0, episodes, episodes_per_file)):
            path = out / f"videos/{camera}/{_PLACE.format(chunk_index=0, file_index=file)}.mp4"
            path.parent.mkdir(parents=True, exist_ok=True)
            encode_video(path, frames(first), size, fps=FPS, codec=encoder, options=options)
        stats[camera] = _statistics(np.concatenate(pixels) / 255, (3, 1, 1))
    values = _values(episodes, length, seed)
    stats |= {name: _statistics(one, one.shape[1:] or (1,)) for name, one in values.items()}
    _write_tables(out, values, length, episodes_per_file)
    _write_info(out, values, episodes, size, codec)
    (out / "meta/stats.json").write_text(json.dumps(stats))
    return episodes * length


def _values(episodes: int, length: int, seed: int) -> dict[str, NDArray[Any]]:
    """Return the values of all frames by feature: joints move smoothly, and an action is the next state."""
    rng = np.random.default_rng(seed)
    steps = np.tile(np.arange(length), episodes)
    numbers = np.repeat(np.arange(episodes), length)
    turns, phases = rng.uniform(0.2, 1.5, (2, episodes, _NUM_JOINTS))[:, numbers]
    state, action = (np.sin(turns * (steps + more)[:, None] / FPS + phases) for more in (0, 1))
    return {
        "observation.state": state.astype(np.float32),
        "action": action.astype(np.float32),
        "timestamp": (steps / FPS).astype(np.float32),
        "frame_index": steps,
        "episode_index": numbers,
        "index": np.arange(len(steps)),
        "task_index": numbers % len(TASKS),
    }


def _statistics(values: NDArray[Any], shape: tuple[int, ...]) -> dict[str, list[Any]]:
    """Return the statistics of a feature as in meta/stats.json; `values` has one row per frame or pixel."""
    found = {name: getattr(values, name)(axis=0) for name in ("min", "max", "mean", "std")}
    found |= {f"q{part:02d}": np.quantile(values, part / 100, axis=0) for part in _QUANTILES}
    listed = {name: np.reshape(one, shape).tolist() for name, one in found.items()}
    return {**listed, "count": [len(values)]}


def _write_tables(
    out: Path, values: Mapping[str, NDArray[Any]], length: int, episodes_per_file: int
) -> None:
    """Write the tables of frames, episodes and tasks."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def write(table: Any, name: str) -> None:
        path = out / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path, row_group_size=length)

    def column(rows: NDArray[Any]) -> Any:
        flat = pa.array(rows.reshape(-1))
        return flat if rows.ndim == 1 else pa.FixedSizeListArray.from_arrays(flat, rows.shape[1])

    table = pa.table({name: column(one) for name, one in values.items()})
    rows_per_file = length * episodes_per_file
    for file, first in enumerate(range(0, len(table), rows_per_file)):
        place = _PLACE.format(chunk_index=0, file_index=file)
        write(table.slice(first, rows_per_file), f"data/{place}")
    numbers = np.arange(len(table) // length)
    files = {"chunk_index": 0 * numbers, "file_index": numbers // episodes_per_file}
    starts = (numbers % episodes_per_file) * length / FPS
    places: dict[str, Any] = {f"data/{name}": one for name, one in files.items()}
    for camera in CAMERAS:
        places |= {f"videos/{camera}/{name}": one for name, one in files.items()}
        places[f"videos/{camera}/from_timestamp"] = starts
        places[f"videos/{camera}/to_timestamp"] = starts + length / FPS
    episodes = {
        "episode_index": numbers,
        "tasks": [[TASKS[number % len(TASKS)]] for number in numbers.tolist()],
        "length": np.full(len(numbers), length),
        "dataset_from_index": numbers * length,
        "dataset_to_index": (numbers + 1) * length,
        **places,
        **{f"meta/episodes/{name}": 0 * numbers for name in files},
    }
    write(pa.table(episodes), "meta/episodes/chunk-000/file-000")
    # The texts are the index of a pandas table, which lerobot expects.
    names = [("task", "unicode", "object"), ("task_index", "int64", "int64")]
    keys = ("name", "field_name", "pandas_type", "numpy_type", "metadata")
    columns = [dict(zip(keys, (one[0], *one, None), strict=True)) for one in names]
    pandas: dict[str, Any] = {"index_columns": ["task"], "column_indexes": [], "columns": columns}
    tasks = pa.table({"task_index": range(len(TASKS)), "task": list(TASKS)})
    write(tasks.replace_schema_metadata({"pandas": json.dumps(pandas)}), "meta/tasks")


def _write_info(
    out: Path,
    values: Mapping[str, NDArray[Any]],
    episodes: int,
    size: tuple[int, int],
    codec: str,
) -> None:
    features: dict[str, Any] = {
        name: {"dtype": one.dtype.name, "shape": list(one.shape[1:]) or [1], "names": None}
        for name, one in values.items()
    }
    video = {"video.fps": FPS, "video.codec": codec, "video.pix_fmt": "yuv420p"}
    camera = {
        "dtype": "video",
        "shape": [*size, 3],
        "names": ["height", "width", "channels"],
        "info": video,
    }
    info = {
        "codebase_version": "v3.0",
        "robot_type": "simulated",
        "total_episodes": episodes,
        "total_frames": len(values["index"]),
        "total_tasks": len(TASKS),
        "chunks_size": 1000,
        "data_files_size_in_mb": 100,
        "video_files_size_in_mb": 200,
        "fps": FPS,
        "splits": {"train": f"0:{episodes}"},
        "data_path": f"data/{_PLACE}.parquet",
        "video_path": f"videos/{{video_key}}/{_PLACE}.mp4",
        "features": {**dict.fromkeys(CAMERAS, camera), **features},
    }
    (out / "meta/info.json").write_text(json.dumps(info))


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    out: Annotated[Path, typer.Argument(help="The folder that gets the dataset.")],
    codec: Annotated[str, typer.Option(help="Codec of the videos: av1 or h264.")] = "av1",
    episodes: Annotated[int, typer.Option(help="Number of episodes.")] = 50,
    seconds: Annotated[float, typer.Option(help="Length of each episode.")] = 10.0,
    height: Annotated[int, typer.Option(help="Height of the pictures.")] = 480,
    width: Annotated[int, typer.Option(help="Width of the pictures.")] = 640,
    seed: Annotated[int, typer.Option(help="Seed of pictures and values.")] = 0,
) -> None:
    """Make a LeRobot dataset of version 3.0 with two cameras, a state and an action."""
    size = (height, width)
    count = make_robots(out, codec=codec, episodes=episodes, seconds=seconds, size=size, seed=seed)
    typer.echo(f"{episodes} episodes, {count} frames of {len(CAMERAS)} cameras: {out}")


if __name__ == "__main__":
    errors.call(app)
