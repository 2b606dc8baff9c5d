"""Datasets of LeRobot episodes, with one sample per frame and the values of neighbouring frames on request."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.datasets.dataset import IndexedDataset
from readers.datasets.inspected import Checks, SampleFacts
from readers.detect.registry import require
from readers.formats.files.described import FilesBelow
from readers.formats.lerobot.cameras import Camera, TableCamera, VideoCamera
from readers.formats.lerobot.episodes import Place, Places, episodes_of_split, read_episodes
from readers.formats.lerobot.meta import FRAME, TIME, Info, read_info, root_of
from readers.formats.lerobot.tables import Frames, to_array
from readers.formats.lerobot.values import (
    DeltaTimestamps,
    Values,
    frame_offsets,
    read_all_texts,
    to_npy,
)
from readers.formats.lerobot.videos import Videos
from readers.image.header import Header
from readers.plural import counted
from readers.sample import (
    BadSample,
    ColumnName,
    Dataset,
    FieldTypes,
    PathLike,
    Sample,
    SourceError,
    checked_indices,
)
from readers.storage.unreadable import is_transient, reason_of
from readers.video.containers.open import VideoError
from readers.video.frame_folder import FRAMES_CODEC
from readers.video.info import VideoInfo

_NOW = np.zeros(1, np.int64)  # offsets of a feature without delta_timestamps
# Clocks of recordings deviate by less from the stated frame rate; 29.97 stated as 30 deviates by 0.001.
_RATE_TOLERANCE = 0.01


class LeRobotDataset(IndexedDataset):
    """The frames of a LeRobot dataset of version 3.0, in the order of episodes and frames.

    A sample is a frame, with values of the neighbouring frames that `delta_timestamps` names. Its key is
    ``episode_000003#17``, its label the number of its task (`class_names` has the texts), and its fields are

    - each feature of numbers under its name, as an .npy file: ``[*shape]``, a single number for the shape
      [1]; with `delta_timestamps` ``[T, *shape]``, and ``NAME_is_pad``, bool [T];
    - each feature of text under its name, as text; with `delta_timestamps` as a JSON list;
    - ``task`` (and ``subtask``), the text that meta/tasks.parquet has for the frame's number;
    - ``CAMERA.frames``, int64 [T]: the indices of frames in its video, in the order of presentation, or in its episode
      if the tables hold pictures; and ``CAMERA.mp4``, the complete video, mapped, or ``CAMERA.png``, the first
      picture.

    A frame outside the episode is replaced by the episode's first or last frame, and ``NAME_is_pad`` is true there.
    The video frame of a table row is the one shown at ``from_timestamp + timestamp``, computed in float64. A `Loader` decodes
    video frames; `camera` gives access to them without a Loader.

    Tables are read by row groups, which stay decoded in memory up to `decoded_bytes`. Videos are indexed when the first
    sample is fetched; see `readers.video.VideoIndex`.

    Args:
        root: Path of the folder that holds meta/, data/ and, for pictures in videos, videos/.
        split: Name of a split in meta/info.json; None if `episodes` is given or there is only one split.
        episodes: Numbers of the episodes to take, in any order; None for all.
        cameras: Names of the picture features to take, or one name; None for all.
        delta_timestamps: Offsets from the current frame in seconds, multiples of 1 / fps, by feature name. Features without
            an entry have only the value of the current frame.
        tolerance_s: Largest allowed difference in seconds, of an offset from a multiple of 1 / fps and of a frame's time
            stamp from that of its picture in the video.
        decoded_bytes: Maximum size in bytes of the decoded row groups that stay in memory.

    Attributes:
        root: Path of the dataset's folder.
        info: Content of meta/info.json.
        cameras: Names of the cameras that are read.
        num_frames: Number T of a camera's pictures in a sample, by name of the camera.

    Raises:
        SourceError: The dataset is missing, of another version or inconsistent, or has no such split, episode or feature.

    Example:
        >>> robot = open_dataset("robot/", episodes=[0, 2], delta_timestamps={"action": [0.0, 0.1]})
        >>> robot.cameras, robot.field_types["action"]
        (('observation.images.top', 'observation.images.wrist'), ('float32', (2, 3)))
        >>> [sample] = robot.fetch([7])
        >>> sample.key, bytes(sample.fields["task"])
        ('episode_000002#2', b'pick the cup')
    """

    kind_of_media = "images"
    packing_obstacle = "is a LeRobot dataset, whose videos hold many episodes and whose frames no shard holds: train on the folder as it is"

    def __init__(
        self,
        root: PathLike,
        *,
        split: str | None = None,
        episodes: Iterable[int] | None = None,
        cameras: str | Sequence[str] | None = None,
        delta_timestamps: DeltaTimestamps | None = None,
        tolerance_s: float = 1e-4,
        decoded_bytes: int = 256 << 20,
    ) -> None:
        require("pyarrow.parquet", extra="arrow")
        self.root = root_of(root)
        self.info = read_info(self.root)
        self.cameras = _cameras(cameras, self.info)
        features = [one for one in self.info.features.values() if not one.is_camera]
        known = [*(one.name for one in features), *self.cameras]
        fps, deltas = self.info.fps, delta_timestamps or {}
        self._offsets = frame_offsets(deltas, fps, tolerance_s, known)
        self.num_frames = {one: len(self._offsets.get(one, _NOW)) for one in self.cameras}
        self._episodes = read_episodes(self.root, self.info)
        wanted = episodes_of_split(self.root, self.info, split, episodes)
        self._places = Places(self.root, self._episodes, wanted)
        self._frames = Frames(self._places.tables, features, decoded_bytes)
        self._texts = read_all_texts(self.root, self.info)
        tables = [table.name for table in self._places.tables]
        self._values = Values(self._frames, self.info, tables, self._offsets, self._texts)
        taken = self._places.taken
        self.videos = Videos.of_episodes(self.root, self._episodes, taken, self.cameras)
        self._cameras = [self._camera(one, tolerance_s, decoded_bytes) for one in self.cameras]
        self._tolerance_s = tolerance_s
        self._options: dict[str, Any] = {
            "episodes": None if wanted is None else self._episodes.numbers[taken].tolist(),
            "cameras": list(self.cameras),
            "delta_timestamps": {name: [float(s) for s in deltas[name]] for name in deltas},
            "tolerance_s": tolerance_s,
            "decoded_bytes": decoded_bytes,
        }

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the path and the options; the process that unpickles opens the files again."""
        return partial(type(self), **self._options), (self.root,)

    def __len__(self) -> int:
        return len(self._places)

    def __repr__(self) -> str:
        """Show the counts of frames and episodes, the cameras, and `delta_timestamps`."""
        episodes = counted(len(self._places.taken), "episode")
        windows = {name: self._options["delta_timestamps"][name] for name in self._offsets}
        shown = f", delta_timestamps={windows}" if windows else ""
        return (
            f"LeRobotDataset({counted(len(self), 'frame')} of {episodes}, cameras={list(self.cameras)}"
            f"{shown})"
        )

    @property
    def class_names(self) -> tuple[str, ...]:
        """Texts of the tasks, by task number; empty if the numbers do not count from 0."""
        texts = self._texts.get("task", {})
        counted = range(len(texts))
        return tuple(texts[number] for number in counted) if set(texts) == set(counted) else ()

    @property
    def field_types(self) -> FieldTypes:
        """(dtype, shape) of each field that holds numbers, by field name."""
        types: dict[str, tuple[str, tuple[int, ...]]] = {}
        for name, feature in self.info.features.items():
            window = (len(self._offsets[name]),) if name in self._offsets else ()
            if window:
                types[f"{name}_is_pad"] = ("bool", window)
            if feature.kind == "number":
                types[name] = (feature.dtype, (*window, *feature.shape))
        frames = {f"{name}.frames": ("int64", (n,)) for name, n in self.num_frames.items()}
        return {**types, **frames}

    @property
    def remarks(self) -> tuple[str, ...]:
        remarks = [
            f"the camera {one} of {self.root} holds distances, of which a Loader keeps 8 bits: leave it out with "
            "cameras= where they matter"
            for one in self.cameras
            if self.info.features[one].is_depth
        ]
        lost = self._places.unreadable
        if lost:
            frames = counted(sum(int(table.rows.sum()) for table in lost), "frame")
            tables = counted(len(lost), "table")
            remarks.append(
                f"{frames} of {self.root} are bad samples, because {tables} cannot be read: {lost[0].reason}"
            )
        rate = self._stored_rate()
        if self._offsets and rate and abs(rate / self.info.fps - 1) > _RATE_TOLERANCE:
            remarks.append(
                f"{self.root} states {self.info.fps:g} frames per second, but its time stamps show {rate:.4g}, and "
                "delta_timestamps count frames at the stated rate: correct fps in meta/info.json"
            )
        return tuple(remarks)

    def _stored_rate(self) -> float | None:
        """Return the median frame rate by the time stamps of one row group; None if there is no such group to read."""
        table = next(one for one in self._places.tables if one not in self._places.unreadable)
        # A group that cannot be read makes bad samples, which say why.
        with suppress(SourceError, OSError):
            group = table.read(0, [TIME, FRAME])
            features = [self.info.features[name] for name in (TIME, FRAME)]
            seconds, frames = (
                to_array(group.column(one.name), one, table.name) for one in features
            )
            steps = np.diff(seconds)[np.diff(frames) == 1]
            if len(steps) and np.median(steps) > 0:
                return float(1 / np.median(steps))
        return None

    @property
    def block_size(self) -> int:
        """Number of samples in the median episode, the unit of block shuffling."""
        return max(1, int(np.median(self._places.lengths)))

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits, a hash of the features, episodes, table footers, names and sizes of the videos, and options."""
        info, episodes, taken = self.info, self._episodes, self._places.taken
        features = [[one.name, one.kind, one.dtype, one.shape] for one in info.features.values()]
        offsets = {name: self._offsets[name].tolist() for name in sorted(self._offsets)}
        texts = [[word, sorted(self._texts[word].items())] for word in sorted(self._texts)]
        settings = [
            "lerobot 1",
            info.fps,
            features,
            self.cameras,
            offsets,
            self._tolerance_s,
            texts,
        ]
        digest = hashlib.sha256(json.dumps(settings).encode())
        for numbers in (
            episodes.numbers[taken],
            episodes.lengths[taken],
            episodes.first_rows[taken],
        ):
            digest.update(np.asarray(numbers, "<i8").tobytes())
        for table in self._places.tables:
            digest.update(f"{table.name} {table.digest}\n".encode())
        for camera in [one for one in self.cameras if one in episodes.videos]:
            names = [episodes.video_names[n] for n in episodes.videos[camera][taken].tolist()]
            sizes = FilesBelow(self.root, "the dataset").sizes(names)
            digest.update(repr([camera, *zip(names, sizes, strict=True)]).encode())
            digest.update(np.asarray(episodes.starts[camera][taken], "<f8").tobytes())
        return digest.hexdigest()[:32]

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        """Return a column; ``height`` and ``width`` are those of the first camera, and ``num_bytes`` is -1."""
        if name == "label" and "task_index" in self.info.features:
            tables = range(len(self._places.tables))
            return self._places.gather([self._frames.whole(n, "task_index") for n in tables])
        if name in ("height", "width"):
            size = self.info.features[self.cameras[0]].shape
            return np.full(len(self), size[int(name == "width")], np.int64)
        return np.full(len(self), -1, np.int64)

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Return samples; see `Dataset.fetch`.

        Raises:
            SourceError: The videos have no index yet, and PyAV, which makes it, is not installed.
            IndexFileError: No folder for the index of the videos can be written to.
        """
        self.videos.open()
        return [self._fetch_one(index) for index in checked_indices(indices, len(self))]

    def video_files(self) -> Dataset:
        """Return a dataset whose samples are all video files."""
        return self.videos.files

    def inspect_sample(self, sample: Sample, checks: Checks | None) -> SampleFacts:
        """Return facts about a sample: field sizes, header and decoding error.

        The sizes of its videos are left out, because samples share videos.
        """
        sizes = {
            name: len(data) for name, data in sample.fields.items() if not name.endswith(".mp4")
        }
        place, header = self.place(sample.index), None
        info = self.camera(0).info(place)
        if isinstance(info, VideoInfo) and info.codec != FRAMES_CODEC:
            header = Header(info.codec, info.height, info.width, 1)
        error = "" if checks is None else self._decoding_error(sample, place, checks)
        return SampleFacts(sizes, header, error=error)

    def _decoding_error(self, sample: Sample, place: Place, checks: Checks) -> str:
        """Decode the pictures of all cameras; return the first error, "" if there is none."""
        for camera in self._cameras:
            try:
                info, frames = camera.shown(place)
            except (VideoError, SourceError, OSError) as error:
                return f"{camera.name}: {error}"
            if info.codec != FRAMES_CODEC:
                reasons = [checks.video(sample.fields[f"{camera.name}.mp4"], info, frames)]
            else:
                reasons = [
                    one.reason if isinstance(one, BadSample) else checks.image(one, camera.size)
                    for one in camera.pictures(place, frames)
                ]
            if any(reasons):
                return f"{camera.name}: {next(filter(None, reasons))}"
        return ""

    def place(self, index: int) -> Place:
        """Return the location of a sample: its episode, table and row."""
        return self._places.of(index)

    def episode(self, number: int) -> Place:
        """Return the location of the first frame of an episode.

        Args:
            number: Number of the episode, which must be one of those that are read.
        """
        return self._places.first_of(number)

    def camera(self, number: int) -> Camera:
        """Return the camera with the given index in `cameras`."""
        return self._cameras[number]

    def episodes_of(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the episode number of each sample, int64 [n]."""
        return self._places.episodes_of(indices)

    def _fetch_one(self, index: int) -> Sample | BadSample:
        place = self._places.of(index)
        try:
            fields = self._values.read(place)
            label = self._values.add_texts(fields, place)
            image_field, size = None, None
            for camera in self._cameras:
                shown = camera.shown(place)
                field, content = camera.payload(place, shown)
                fields |= {f"{camera.name}.frames": to_npy(shown.frames), field: content}
                if image_field is None:
                    image_field, size = field, (shown.info.height, shown.info.width)
        except VideoError as error:
            return BadSample(index, place.key, "header", str(error))
        except (SourceError, ValueError) as error:
            return BadSample(index, place.key, "read", str(error), transient=is_transient(error))
        except OSError as error:
            reason = f"a file cannot be read: {reason_of(error)}"
            return BadSample(index, place.key, "read", reason, transient=is_transient(error))
        return Sample(index, place.key, fields, label, size=size, image_field=image_field)

    def _camera(self, name: str, tolerance_s: float, decoded_bytes: int) -> Camera:
        feature, offsets = self.info.features[name], self._offsets.get(name)
        if feature.kind == "video":
            return VideoCamera(
                feature,
                offsets,
                episodes=self._episodes,
                videos=self.videos,
                frames=self._frames,
                tolerance_s=tolerance_s,
            )
        return TableCamera(
            feature,
            offsets,
            places=self._places,
            root=str(self.root),
            fps=self.info.fps,
            decoded_bytes=decoded_bytes,
        )


def _cameras(given: str | Sequence[str] | None, info: Info) -> tuple[str, ...]:
    names = info.cameras if given is None else (given,) if isinstance(given, str) else tuple(given)
    unknown = [name for name in names if name not in info.cameras]
    if unknown or not names or len(set(names)) < len(names):
        raise SourceError(
            f"cameras={given!r} must name different cameras of the dataset, which has "
            f"{', '.join(info.cameras) or 'none'}"
        )
    return names
