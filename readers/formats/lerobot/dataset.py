"""Datasets of LeRobot episodes, with one sample per frame and the values of neighbouring frames on request."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from readers.datasets.dataset import IndexedDataset
from readers.datasets.inspected import Checks, SampleFacts
from readers.detect.registry import require
from readers.formats.lerobot.cameras import Camera, TableCamera, VideoCamera
from readers.formats.lerobot.episodes import Place, Places, episodes_of_split, read_episodes
from readers.formats.lerobot.frame_batch import (
    NOW,
    READ_ERRORS,
    FrameBatch,
    ReadError,
    value_or_raise,
)
from readers.formats.lerobot.meta import FRAME, TIME, Info, read_info, renamed, root_of
from readers.formats.lerobot.stats import Normalize, Normalizer, Stats, modes_of, read_stats
from readers.formats.lerobot.tables import Frames, to_array
from readers.formats.lerobot.values import (
    DeltaTimestamps,
    Values,
    frame_offsets,
    read_all_texts,
    to_npy,
)
from readers.formats.lerobot.videos import Shown, Videos
from readers.image.header import Header
from readers.plural import counted
from readers.sample import (
    BadSample,
    ColumnName,
    Dataset,
    FieldTypes,
    PathLike,
    Payload,
    Sample,
    SourceError,
    checked_indices,
)
from readers.storage.paths import UrlFolder
from readers.storage.unreadable import is_transient, reason_of
from readers.video.containers.open import VideoError
from readers.video.frame_folder import FRAMES_CODEC
from readers.video.info import VideoInfo

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
      if the tables hold pictures; and ``CAMERA.mp4``, the complete video, mapped (at a URL a
      `readers.storage.blob.BlobPayload`, which reads the slices that are accessed), or ``CAMERA.png``, the first
      picture (``.tiff`` for distances in floats).

    A frame outside the episode is replaced by the episode's first or last frame, and ``NAME_is_pad`` is true there.
    The video frame of a table row is the one shown at ``from_timestamp + timestamp``, computed in float64. A `Loader` decodes
    video frames; `camera` gives access to them without a Loader.

    Tables are read by row groups, which stay decoded in memory up to `decoded_bytes`. Videos are indexed when the first
    sample is fetched; see `readers.video.VideoIndex`.

    Args:
        root: Path or URL of the folder that holds meta/, data/ and, for pictures in videos, videos/; or of its
            meta/info.json. At a URL the tables of episodes must be numbered without gaps, as lerobot numbers them.
        split: Name of a split in meta/info.json; None if `episodes` is given or there is only one split.
        episodes: Numbers of the episodes to take, in any order; None for all.
        cameras: Names of the picture features to take, or one name; None for all.
        delta_timestamps: Offsets from the current frame in seconds, multiples of 1 / fps, by feature name. Features without
            an entry have only the value of the current frame.
        normalize: Formula by which values are normalized with the statistics in meta/stats.json, "mean_std", "min_max" or
            "quantiles"; see `readers.formats.lerobot.stats.Normalizer`. One formula applies to all features of
            floating-point numbers whose names begin with "observation." or "action"; a dictionary such as
            ``{"action": "min_max"}`` names the features. Normalized values are float32.
        rename: New names of features by stored name, so that datasets of a mixture share them; `cameras` and
            `delta_timestamps` take the new names.
        tolerance_s: Largest allowed difference in seconds, of an offset from a multiple of 1 / fps and of a frame's time
            stamp from that of its picture in the video.
        decoded_bytes: Maximum size in bytes of the decoded row groups that stay in memory.

    Attributes:
        root: The dataset's folder, a Path; at a URL a `readers.storage.paths.UrlFolder`.
        info: Content of meta/info.json.
        cameras: Names of the cameras that are read, those of pictures before those of distances.
        num_frames: Number T of a camera's pictures in a sample, by name of the camera.
        normalize: Formula of each feature that is normalized, by its name.

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
        root: PathLike | UrlFolder,
        *,
        split: str | None = None,
        episodes: Iterable[int] | None = None,
        cameras: str | Sequence[str] | None = None,
        delta_timestamps: DeltaTimestamps | None = None,
        normalize: Normalize | None = None,
        rename: Mapping[str, str] | None = None,
        tolerance_s: float = 1e-4,
        decoded_bytes: int = 256 << 20,
    ) -> None:
        require("pyarrow.parquet", extra="arrow")
        self.root = root_of(root)
        self.info = renamed(read_info(self.root), rename or {})
        self.cameras = _cameras(cameras, self.info)
        features = [one for one in self.info.features.values() if not one.is_camera]
        known = [*(one.name for one in features), *self.cameras]
        fps, deltas = self.info.fps, delta_timestamps or {}
        self._offsets = frame_offsets(deltas, fps, tolerance_s, known)
        self.normalize = modes_of(normalize, self.info.features)
        self._normalizers = {
            name: Normalizer(self.info.features[name], mode, self.stats)
            for name, mode in self.normalize.items()
        }
        self.num_frames = {one: len(self._offsets.get(one, NOW)) for one in self.cameras}
        self._episodes = read_episodes(self.root, self.info)
        wanted = episodes_of_split(self.root, self.info, split, episodes)
        self._places = Places(self.root, self._episodes, wanted)
        conversions = {name: one.apply for name, one in self._normalizers.items()}
        self._frames = Frames(self._places.tables, features, decoded_bytes, conversions)
        self._texts = read_all_texts(self.root, self.info)
        tables = [table.name for table in self._places.tables]
        self._values = Values(self.info, tables, self._offsets, self._texts, self.field_types)
        taken = self._places.taken
        self.videos = Videos.of_episodes(self.root, self._episodes, taken, self.cameras)
        self._cameras = [self._camera(one, tolerance_s, decoded_bytes) for one in self.cameras]
        self._tolerance_s = tolerance_s
        self._options: dict[str, Any] = {
            "episodes": None if wanted is None else self._episodes.numbers[taken].tolist(),
            "cameras": list(self.cameras),
            "delta_timestamps": {name: [float(s) for s in deltas[name]] for name in deltas},
            "normalize": self.normalize or None,
            "rename": rename,
            "tolerance_s": tolerance_s,
            "decoded_bytes": decoded_bytes,
        }

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the path and the options; the process that unpickles opens the files again."""
        return partial(type(self), **self._options), (self.root,)

    def __len__(self) -> int:
        return len(self._places)

    def __repr__(self) -> str:
        """Show the counts of frames and episodes, the cameras, `delta_timestamps` and `normalize`."""
        episodes = counted(len(self._places.taken), "episode")
        windows = {name: self._options["delta_timestamps"][name] for name in self._offsets}
        shown = f", delta_timestamps={windows}" if windows else ""
        if self.normalize:
            shown += f", normalize={self.normalize}"
        return (
            f"LeRobotDataset({counted(len(self), 'frame')} of {episodes}, cameras={list(self.cameras)}"
            f"{shown})"
        )

    @property
    def class_names(self) -> tuple[str, ...]:
        """Texts of the tasks, by task number; ``(no task 3)`` for a number without a text; empty without tasks."""
        texts = self._texts.get("task", {})
        return tuple(texts.get(n, f"(no task {n})") for n in range(max(texts, default=-1) + 1))

    @property
    def numbered_texts(self) -> Mapping[str, Mapping[int, str]]:
        """Texts by number, for ``task_index`` and ``subtask_index`` as far as the dataset has them."""
        return {f"{word}_index": texts for word, texts in self._texts.items()}

    @property
    def field_types(self) -> FieldTypes:
        """(dtype, shape) of each field that holds numbers, by field name."""
        types: dict[str, tuple[str, tuple[int, ...]]] = {}
        for name, feature in self.info.features.items():
            window = (len(self._offsets[name]),) if name in self._offsets else ()
            if window:
                types[f"{name}_is_pad"] = ("bool", window)
            if feature.kind == "number":
                dtype = "float32" if name in self._normalizers else feature.dtype
                types[name] = (dtype, (*window, *feature.shape))
        frames = {f"{name}.frames": ("int64", (n,)) for name, n in self.num_frames.items()}
        return {**types, **frames}

    @property
    def remarks(self) -> tuple[str, ...]:
        remarks = [
            f"the camera {one.name} of {self.root} holds distances, but meta/info.json does not say how (video.depth_min, "
            f"...): codes from {one.depth.limits[0]} to {one.depth.limits[1]} m are assumed, as lerobot does"
            for one in (self.info.features[name] for name in self.cameras)
            if one.depth is not None and one.kind == "video" and one.depth.depth_min is None
        ]
        if unread := [f"{name} ({dtype})" for name, dtype in self.info.unread.items()]:
            remarks.append(
                f"{counted(len(unread), 'feature')} of {self.root} {'has' if len(unread) == 1 else 'have'} a type that is "
                f"not read, so samples lack {', '.join(unread)}"
            )
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

    @cached_property
    def stats(self) -> Stats:
        """Statistics in meta/stats.json by feature name, such as ``stats["action"]["mean"]``, read-only float64 arrays.

        Those of numbers have the feature's shape, those of cameras the shape [channels], for pixels in [0, 1]; a recipe
        takes them as ``Normalize(mean=stats[camera]["mean"].tolist(), std=stats[camera]["std"].tolist())``.

        Raises:
            SourceError: The file is missing or cannot be used.
        """
        return read_stats(self.root, self.info.features)

    def denormalize(self, name: str, values: Any) -> Any:
        """Return values as they were before `normalize`, such as the actions that a policy predicts.

        Args:
            name: Name of a feature that is normalized.
            values: Normalized values ``[..., *shape]``, a torch.Tensor on any device or a NumPy array.

        Returns:
            float32 ``[..., *shape]``, a tensor on the same device or a NumPy array.

        Raises:
            SourceError: The feature is not normalized, or the values have another shape.
        """
        if name not in self._normalizers:
            raise SourceError(
                f"{name!r} is not normalized, only {', '.join(self._normalizers) or 'nothing'}: open the dataset with "
                f"normalize={{{name!r}: ...}}"
            )
        return self._normalizers[name].invert(values)

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
        depths = [
            [one.name, *msgspec.structs.astuple(one.depth)]
            for one in info.features.values()
            if one.depth
        ]
        settings: list[Any] = [
            "lerobot 1",
            info.fps,
            [*features, *depths],
            self.cameras,
            offsets,
            self._tolerance_s,
            texts,
        ]
        for name, one in sorted(self._normalizers.items()):
            settings.append([name, one.mode, one.first.tolist(), one.second.tolist()])
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
            sizes = self.videos.files.sizes(episodes.videos[camera][taken].tolist())
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
        numbers = checked_indices(indices, len(self))
        batch = self.batch(numbers)
        shown = [camera.shown(batch) for camera in self._cameras]
        held: dict[tuple[str, int], tuple[str, Payload]] = {}
        return [
            self._sample(index, batch, number, [one[number] for one in shown], held)
            for number, index in enumerate(numbers)
        ]

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
        batch = self.batch([sample.index])
        for camera in self._cameras:
            try:
                info, frames = value_or_raise(camera.shown(batch)[0])
            except (VideoError, *READ_ERRORS) as error:
                return f"{camera.name}: {error}"
            if info.codec != FRAMES_CODEC:
                reasons = [checks.video(sample.fields[f"{camera.name}.mp4"], info, frames)]
            else:
                check = checks.numbers if camera.depth else checks.image
                reasons = [
                    one.reason if isinstance(one, BadSample) else check(one, camera.size)
                    for one in camera.pictures(place, frames)
                ]
            if any(reasons):
                return f"{camera.name}: {next(filter(None, reasons))}"
        return ""

    def place(self, index: int) -> Place:
        """Return the location of a sample: its episode, table and row."""
        return self._places.of([index])[0]

    def batch(self, indices: Sequence[int] | NDArray[np.int64]) -> FrameBatch:
        """Return a reader of the values of some samples; see `Camera.shown`."""
        return FrameBatch(self._frames, self._places.of(indices))

    def camera(self, number: int) -> Camera:
        """Return the camera with the given index in `cameras`."""
        return self._cameras[number]

    def episodes_of(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the episode number of each sample, int64 [n]."""
        return self._places.episodes_of(indices)

    def _sample(
        self,
        index: int,
        batch: FrameBatch,
        number: int,
        pictures: Sequence[Shown | VideoError | ReadError],
        held: dict[tuple[str, int], tuple[str, Payload]],
    ) -> Sample | BadSample:
        """Return the sample with a number in the batch; `held` has the batch's fields of complete videos, and gets new ones."""
        place = batch.places[number]
        try:
            fields, label = self._values.read(batch, number)
            image_field, size = None, None
            for camera, picture in zip(self._cameras, pictures, strict=True):
                shown, key = value_or_raise(picture), (camera.name, camera.video(place))
                # One mapping of a video, which takes 20 us, serves the batch; a picture in a table is the sample's own.
                if key not in held or shown.info.codec == FRAMES_CODEC:
                    held[key] = camera.payload(place, shown)
                field, content = held[key]
                fields |= {f"{camera.name}.frames": to_npy(shown.frames), field: content}
                if image_field is None:
                    image_field, size = field, (shown.info.height, shown.info.width)
        except (VideoError, *READ_ERRORS) as error:
            stage: Literal["header", "read"] = "header" if isinstance(error, VideoError) else "read"
            reason = str(error)
            if isinstance(error, OSError):
                reason = f"{error.filename or 'a file'} cannot be read: {reason_of(error)}"
            return BadSample(index, place.key, stage, reason, transient=is_transient(error))
        return Sample(index, place.key, fields, label, size=size, image_field=image_field)

    def _camera(self, name: str, tolerance_s: float, decoded_bytes: int) -> Camera:
        feature, offsets = self.info.features[name], self._offsets.get(name)
        if feature.kind == "video":
            return VideoCamera(
                feature,
                offsets,
                episodes=self._episodes,
                videos=self.videos,
                tolerance_s=tolerance_s,
            )
        return TableCamera(
            feature,
            offsets,
            places=self._places,
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
    # Cameras of pictures come first: the first one gives the sample's picture and size.
    return tuple(sorted(names, key=lambda name: info.features[name].depth is not None))
