"""LeRobot datasets of version 3.0 for tests, written by pyarrow and FFmpeg (PyAV).

tests/support/check_lerobot.py compares what lerobot itself writes.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support.videos import pan, write_video

TOP, WRIST = "observation.images.top", "observation.images.wrist"
DEPTH = "observation.images.depth"
TASKS = ("pick the cup", "öffne die Tür", "wait")
SUBTASKS = ("reach", "grasp")
_PLACES = "chunk-{chunk_index:03d}/file-{file_index:03d}"


@dataclass
class Depth:
    """A depth camera.

    Attributes:
        numbers: What is stored for all frames: codes of luma, uint16 [frames, height, width], or what `encode` takes.
        about: What info.json says of it.
        encode: Makes a picture in the tables of a frame's numbers; None for videos.
        codec: FFmpeg's name of an encoder.
        pixel_format: FFmpeg's name.
        options: Of the encoder.
    """

    numbers: NDArray[Any]
    about: Mapping[str, Any] = field(default_factory=dict)
    encode: Callable[[NDArray[Any]], bytes] | None = None
    codec: str = "libx265"
    pixel_format: str = "gray12le"
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def feature(self) -> dict[str, Any]:
        """What info.json says of it, as lerobot 0.6 writes it."""
        kind = "image" if self.encode else "video"
        size = self.numbers.shape[1], self.numbers.shape[2]
        shape = [*size, 1]
        return {
            **_camera(kind, size),
            "shape": shape,
            "info": {"is_depth_map": True, "video.channels": 1, **self.about},
        }


@dataclass
class Robot:
    """What is written, and where.

    Attributes:
        lengths: Frames of each episode.
        fps: Frames per second.
        sizes: Height and width by camera.
        files: Episodes of each file of videos and tables.
        start_seconds: When the first picture of each video is shown.
        codec: FFmpeg's name of an encoder.
        options: Of the encoder.
        gop: Frames from one keyframe to the next.
        depths: Depth cameras by name.
    """

    lengths: tuple[int, ...] = (5, 3, 6)
    fps: int = 10
    sizes: Mapping[str, tuple[int, int]] = field(
        default_factory=lambda: {TOP: (48, 64), WRIST: (32, 48)}
    )
    files: tuple[tuple[int, ...], ...] = ((0, 1), (2,))
    start_seconds: float = 0.0
    codec: str = "libx264"
    options: Mapping[str, str] = field(default_factory=dict)
    gop: int = 2
    depths: Mapping[str, Depth] = field(default_factory=dict)

    def frames(self, camera: str) -> NDArray[np.uint8]:
        """The pictures of a camera, of all episodes: uint8 [frames, height, width, 3]."""
        return pan(sum(self.lengths), self.sizes[camera], seed=list(self.sizes).index(camera))

    def values(self) -> dict[str, NDArray[Any]]:
        """The values of all frames."""
        steps = np.concatenate([np.arange(length) for length in self.lengths])
        episodes = np.repeat(np.arange(len(self.lengths)), self.lengths)
        index = np.arange(len(steps))
        return {
            "observation.state": np.stack([episodes, steps], 1).astype(np.float32),
            "action": np.stack([index, -steps, index / 8], 1).astype(np.float32),
            "grid": (index[:, None, None] + np.arange(6).reshape(2, 3)).astype(np.int64),
            "reward": (index / 7).astype(np.float64),
            "done": steps == np.repeat(self.lengths, self.lengths) - 1,
            "note": np.array([f"note {n}" for n in index], object),
            "timestamp": (steps / self.fps).astype(np.float32),
            "frame_index": steps,
            "episode_index": episodes,
            "index": index,
            "task_index": (episodes + 1) % len(TASKS),
            "subtask_index": steps % len(SUBTASKS),
        }

    def write(self, root: Path) -> Path:
        """Write it with videos, and return the folder."""
        places: dict[str, Any] = {}
        of_tables = {name: one for name, one in self.depths.items() if one.encode}
        for camera in [*self.sizes, *(one for one in self.depths if one not in of_tables)]:
            depth = self.depths.get(camera)
            frames = self.frames(camera) if depth is None else depth.numbers
            pictures = np.split(frames, np.cumsum(self.lengths)[:-1])
            begins = np.zeros(len(self.lengths))
            for number, episodes in enumerate(self.files):
                path = root / f"videos/{camera}/{_place(number)}.mp4"
                path.parent.mkdir(parents=True, exist_ok=True)
                shown = np.concatenate([pictures[episode] for episode in episodes])
                self._write_video(path, shown, depth)
                before = np.cumsum([0, *(self.lengths[episode] for episode in episodes)])
                begins[list(episodes)] = self.start_seconds + before[:-1] / self.fps
            places |= _video_places(camera, self.files, begins, self.lengths, self.fps)
        features = {camera: _camera("video", size) for camera, size in self.sizes.items()}
        features |= {name: one.feature for name, one in self.depths.items()}
        pictures_of = {
            name: [one.encode(numbers) for numbers in one.numbers]
            for name, one in of_tables.items()
            if one.encode
        }
        write_tables(
            root, self.values(), self.lengths, self.files, self.fps, features, places, pictures_of
        )
        return root

    def _write_video(self, path: Path, frames: NDArray[Any], depth: Depth | None) -> None:
        first = round(self.start_seconds * 12800)
        pts = [first + round(n * 12800 / self.fps) for n in range(len(frames))]
        options = {"preset": "ultrafast"} if self.codec == "libx264" else {}
        options |= self.options
        if depth is not None:
            options = {"x265-params": "lossless=1:log-level=none"} if "265" in depth.codec else {}
            write_video(
                path,
                frames,
                codec=depth.codec,
                pixel_format=depth.pixel_format,
                gop=self.gop,
                pts=pts,
                options={**options, **depth.options},
            )
            return
        write_video(path, frames, codec=self.codec, gop=self.gop, pts=pts, options=options)


def write_tables(
    root: Path,
    values: Mapping[str, Any],
    lengths: Sequence[int],
    files: Sequence[Sequence[int]],
    fps: int,
    cameras: Mapping[str, Any],
    places: Mapping[str, Any],
    pictures: Mapping[str, Sequence[bytes | None]] | None = None,
    tasks: Sequence[str] = TASKS,
    **write_options: Any,
) -> None:
    """Write meta/ and data/.

    Args:
        root: The folder.
        values: By feature, of all frames.
        lengths: Frames of each episode.
        files: Episodes of each table.
        fps: Frames per second.
        cameras: By name, what info.json says of cameras.
        places: Further columns of the table of episodes.
        pictures: By camera, encoded pictures of all frames, for the tables.
        tasks: Their texts.
        write_options: Of pyarrow, for the tables of frames.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {name: _column(one) for name, one in values.items()}
    for camera, encoded in (pictures or {}).items():
        columns[camera] = pa.array(
            [{"bytes": one, "path": f"frame-{n}.png"} for n, one in enumerate(encoded)],
            pa.struct({"bytes": pa.binary(), "path": pa.string()}),
        )
    frames = pa.table(columns)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    episodes: dict[str, Any] = {
        "episode_index": np.arange(len(lengths)),
        "tasks": [[tasks[int(values["task_index"][start])]] for start in starts[:-1]],
        "length": np.array(lengths),
        "dataset_from_index": starts[:-1],
        "dataset_to_index": starts[1:],
        "stats/action/max": [[1.0]] * len(lengths),
        **_file_numbers("data", files, len(lengths)),
        **places,
    }
    for number, own in enumerate(files):
        path = root / f"data/{_place(number)}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = np.concatenate([np.arange(starts[one], starts[one + 1]) for one in own])
        pq.write_table(frames.take(pa.array(rows)), path, **{"row_group_size": 4, **write_options})
    path = root / "meta/episodes/chunk-000/file-000.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(episodes), path)
    texts = {"task_index": range(len(tasks))[::-1], "task": tasks[::-1]}
    pq.write_table(
        pa.table({name: list(one) for name, one in texts.items()}), root / "meta/tasks.parquet"
    )
    texts = {"subtask_index": range(len(SUBTASKS)), "__index_level_0__": SUBTASKS}
    pq.write_table(
        pa.table({name: list(one) for name, one in texts.items()}), root / "meta/subtasks.parquet"
    )
    features = {name: _feature(np.asarray(one)) for name, one in values.items()}
    has_videos = any(one["dtype"] == "video" for one in cameras.values())
    info = {
        "codebase_version": "v3.0",
        "fps": fps,
        "total_episodes": len(lengths),
        "total_frames": sum(lengths),
        "splits": {"train": f"0:{len(lengths)}"},
        "data_path": f"data/{_PLACES}.parquet",
        "video_path": f"videos/{{video_key}}/{_PLACES}.mp4" if has_videos else None,
        "features": {**features, **cameras},
    }
    (root / "meta/info.json").write_text(json.dumps(info))


def picture_feature(size: tuple[int, int]) -> dict[str, Any]:
    """What info.json says of a camera whose pictures lie in the tables."""
    return _camera("image", size)


def change_info(root: Path, **changes: Any) -> None:
    """Change what meta/info.json tells; None leaves a name out."""
    path = root / "meta/info.json"
    told = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({name: one for name, one in told.items() if one is not None}))


def _camera(kind: str, size: tuple[int, int]) -> dict[str, Any]:
    return {"dtype": kind, "shape": [*size, 3], "names": ["height", "width", "channels"]}


def _feature(values: NDArray[Any]) -> dict[str, Any]:
    shape = list(values.shape[1:]) or [1]
    dtype = "string" if values.dtype == object else values.dtype.name
    return {"dtype": dtype, "shape": shape, "names": None}


def _column(values: NDArray[Any]) -> Any:
    """As lerobot has them: numbers, lists of one length, lists of lists."""
    import pyarrow as pa

    if values.ndim == 1:
        return pa.array(values)
    column = pa.array(values.reshape(-1))
    if values.ndim == 2 and values.size:
        return pa.FixedSizeListArray.from_arrays(column, values.shape[1])
    for depth in range(values.ndim - 1, 0, -1):
        count, length = int(np.prod(values.shape[:depth])), values.shape[depth]
        column = pa.ListArray.from_arrays(np.arange(count + 1, dtype=np.int32) * length, column)
    return column


def _place(number: int) -> str:
    """Two files a chunk."""
    return _PLACES.format(chunk_index=number // 2, file_index=number % 2)


def _file_numbers(word: str, files: Sequence[Sequence[int]], count: int) -> dict[str, Any]:
    numbers = np.zeros(count, np.int64)
    for number, episodes in enumerate(files):
        numbers[list(episodes)] = number
    return {f"{word}/chunk_index": numbers // 2, f"{word}/file_index": numbers % 2}


def _video_places(
    camera: str,
    files: Sequence[Sequence[int]],
    begins: NDArray[np.float64],
    lengths: Sequence[int],
    fps: int,
) -> dict[str, Any]:
    ends = begins + np.array(lengths) / fps
    return {
        **_file_numbers(f"videos/{camera}", files, len(lengths)),
        f"videos/{camera}/from_timestamp": begins,
        f"videos/{camera}/to_timestamp": ends,
    }
