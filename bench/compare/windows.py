"""Plan the windows of a LeRobot dataset for a comparison: all contestants get the same frames and values in one order.

lerobot's process imports this module in an environment of its own, so at its top it imports neither torch nor the rest
of gpu-aug except `bench`.
"""

import io
import json
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.compare.contract import Pipeline, Unable
from bench.output.errors import BenchError, require_above_zero

TOLERANCE = 3
"""Largest difference of a pixel from FFmpeg's conversion to RGB, of 255: chroma is converted by other arithmetic."""

_DTYPES = ("uint8", "bfloat16", "float32")
_NUM_WINDOWS = 100_000  # more than a comparison needs, so that no epoch ends during a measurement
# About two seconds of 30 frames per second: windows of 8 frames overlap, and 2 cameras of 480x640 take 60 MB as YUV.
_LOCAL_FRAMES = 64
_ORDERS = {"local": "block", "global": "global"}
_ACTION, _STATE = "action", "observation.state"


@dataclass(frozen=True)
class WindowSettings:
    """Which frames form a window, and the order of the windows.

    Attributes:
        observations: Frames of each camera, the last one at the window's time stamp.
        actions: Actions, the first one at the window's time stamp.
        delta_timestamps: JSON with offsets in seconds by feature, instead of the two numbers.
        shuffle: "local" takes windows at random from 64 neighbouring frames at a time, so that they overlap; "global"
            from all frames.
        dtype: Take only our row with this data type; None for all.
    """

    observations: int = 8
    actions: int = 16
    delta_timestamps: str | None = None
    shuffle: str = "local"
    dtype: str | None = None

    def __post_init__(self) -> None:
        require_above_zero(observations=self.observations, actions=self.actions)
        for name, choices in (("shuffle", tuple(_ORDERS)), ("dtype", (None, *_DTYPES))):
            if (given := getattr(self, name)) not in choices:
                named = ", ".join(filter(None, choices))
                raise BenchError(f"{name} must be one of {named}, got {given!r}: choose one")

    def deltas(self, cameras: Sequence[str], fps: float) -> dict[str, list[float]]:
        """Return the offsets of a window in seconds by feature.

        Raises:
            BenchError: `delta_timestamps` is not a JSON object.
        """
        if self.delta_timestamps is None:
            before = [step / fps for step in range(1 - self.observations, 1)]
            after = [step / fps for step in range(self.actions)]
            return {**dict.fromkeys(cameras, before), _ACTION: after}
        try:
            return dict(json.loads(self.delta_timestamps))
        except (TypeError, ValueError) as error:
            raise BenchError(
                f'delta_timestamps must be JSON such as {{"{_ACTION}": [0.0, 0.1]}}, got '
                f"{self.delta_timestamps!r} ({error})"
            ) from None


@dataclass(frozen=True)
class WindowBatch:
    """A batch of windows.

    Attributes:
        pictures: By camera, a tensor [batch_size, T, 3, height, width].
        values: By feature, a tensor [batch_size, *shape].
    """

    pictures: Mapping[str, Any]
    values: Mapping[str, Any]

    def __len__(self) -> int:
        return len(next(iter(self.pictures.values())))


@dataclass(frozen=True)
class WindowTask:
    """The windows, their order and the threads that all contestants get; it is pickled for their processes.

    Attributes:
        root: Path of the dataset.
        options: Keyword arguments of `readers.open_dataset`, with `delta_timestamps`.
        sizes: (height, width) by camera.
        lengths: Frames of a window by camera, T.
        plan: int64 [n], the index of the dataset's frame at each position.
        batch_size: Count of windows per batch.
        device: The torch device of the batches.
        num_threads: Count of worker threads.
        pictures: The expected pictures of the first windows of `rehearsal`: uint8 [n, T, 3, height, width] by camera.
        values: Their expected values, by feature.
        rehearsed: int64 [n], the frames of those windows.
        is_rehearsal: Whether only these windows are made.
    """

    root: str
    options: Mapping[str, Any]
    sizes: Mapping[str, tuple[int, int]]
    lengths: Mapping[str, int]
    plan: NDArray[np.int64]
    batch_size: int
    device: Any
    num_threads: int
    pictures: Mapping[str, NDArray[np.uint8]] = field(repr=False)
    values: Mapping[str, NDArray[Any]] = field(repr=False)
    rehearsed: NDArray[np.int64]
    is_rehearsal: bool = False

    @property
    def num_frames(self) -> int:
        """Pictures of a window over all cameras."""
        return sum(self.lengths.values())

    def check_batch(self, batch: WindowBatch) -> None:
        """Raise if a batch does not have the required shapes.

        Raises:
            Unable: A camera's pictures have another shape.
        """
        for camera, length in self.lengths.items():
            shape = (self.batch_size, length, 3, *self.sizes[camera])
            if tuple(batch.pictures[camera].shape) != shape:
                made = list(batch.pictures[camera].shape)
                raise Unable(f"made {made} for {camera}, not {list(shape)}")

    def rehearse(self, start: Callable[[Any], Pipeline]) -> str:
        """Let a contestant make the windows at the border of two episodes, and compare them with what is expected.

        Returns:
            A note with the largest difference of a pixel.

        Raises:
            Unable: The contestant returns other pixels or values.
        """
        few: Any = {"plan": self.rehearsed, "batch_size": len(self.rehearsed), "num_threads": 1}
        rehearsal = replace(self, **few, is_rehearsal=True)
        pipeline = start(rehearsal)
        batch = next(pipeline.batches)
        if isinstance(pipeline.batches, Generator):
            pipeline.batches.close()
        rehearsal.check_batch(batch)
        worst = 0
        for camera, wanted in self.pictures.items():
            pixels = batch.pictures[camera].cpu()
            if pixels.is_floating_point():
                pixels = (pixels.float() * 255).round()
            differences = np.abs(pixels.numpy().astype(np.int16) - wanted)
            worst = max(worst, int(differences.max()))
            if worst > TOLERANCE:
                frame = np.unravel_index(differences.argmax(), wanted.shape)[:2]
                raise Unable(
                    f"picture {frame[1]} of {camera} at frame {self.rehearsed[frame[0]]} differs by {worst}/255, more "
                    f"than {TOLERANCE}/255"
                )
        for name, expected in self.values.items():
            if not np.array_equal(np.asarray(batch.values[name]), expected):
                raise Unable(f"the values of {name} differ from the tables'")
        return f"; pixels differ by at most {worst}/255 from FFmpeg's"


def window_settings(
    source: str, how: Mapping[str, Any] = MappingProxyType({}), **asked: Any
) -> WindowSettings | None:
    """Return the requested settings if the data are a LeRobot dataset, else None.

    Args:
        source: A source as for `readers.open_dataset`.
        how: Keyword arguments of `readers.open_dataset`.
        asked: Attributes of `WindowSettings`; None for those that were not requested.

    Raises:
        readers.ReadersError: There is nothing to read.
        BenchError: The arguments are invalid, or only apply to LeRobot datasets.
    """
    from readers.formats.lerobot.dataset import LeRobotDataset
    from readers.prepare.source import open_at_random

    given = {name: value for name, value in asked.items() if value is not None}
    if isinstance(open_at_random(source, **how), LeRobotDataset):
        return WindowSettings(**given)
    for name in given.keys() - {"dtype"}:
        raise BenchError(
            f"--{name.replace('_', '-')} is for LeRobot datasets, and {source} is none: leave it out"
        )
    return None


def make_window_task(
    source: str,
    settings: WindowSettings,
    seed: int,
    *,
    how: Mapping[str, Any] = MappingProxyType({}),
    **alike: Any,
) -> WindowTask:
    """Open a dataset and plan its windows.

    Args:
        source: Path of a LeRobot dataset.
        settings: Which frames form a window, and the order.
        seed: Seed of the order.
        how: Keyword arguments of `readers.open_dataset`.
        alike: `batch_size`, `device` and `num_threads` of the task.

    Raises:
        readers.ReadersError: The dataset cannot be opened.
        BenchError: A camera has no videos of pictures, or its second episode begins with a damaged sample.
    """
    from readers import BadSample, Order
    from readers.prepare.source import open_at_random

    dataset: Any = open_at_random(source, **how)
    features, cameras = dataset.info.features, dataset.cameras
    known = [features[camera] for camera in cameras]
    if others := [one.name for one in known if one.kind != "video" or one.depth]:
        raise BenchError(
            f"{source} must have videos of pictures to be compared, and {', '.join(others)} has none: choose other cameras "
            '(--option "cameras=[...]")'
        )
    options = {"delta_timestamps": settings.deltas(cameras, dataset.info.fps), **how}
    dataset = open_at_random(source, **options)
    shuffle: Any = _ORDERS[settings.shuffle]
    order = Order(len(dataset), seed, shuffle, _LOCAL_FRAMES, window_blocks=1)
    epochs = range(-(-_NUM_WINDOWS // len(dataset)))
    plan = [order.indices(epoch, np.arange(len(dataset))) for epoch in epochs]
    # The last frame of the first episode and the first frame of the next one: both windows leave their episode.
    first = dataset.place(0)
    rehearsed = np.array([first.stop - first.start - 1, first.stop - first.start]) % len(dataset)
    samples = dataset.fetch(rehearsed)
    for bad in (one for one in samples if isinstance(one, BadSample)):
        raise BenchError(f"{source} is damaged at {bad.key} ({bad.reason}): give another dataset")
    return WindowTask(
        root=str(dataset.root),
        options=options,
        sizes={one.name: (one.shape[0], one.shape[1]) for one in known},
        lengths={camera: dataset.num_frames[camera] for camera in cameras},
        plan=np.concatenate(plan),
        pictures=_pictures(dataset, rehearsed),
        values={
            name: np.stack([np.load(io.BytesIO(one.fields[name])) for one in samples])
            for name in (_STATE, _ACTION)
            if name in features
        },
        rehearsed=rehearsed,
        **alike,
    )


def _pictures(dataset: Any, indices: NDArray[np.int64]) -> dict[str, NDArray[np.uint8]]:
    """Decode the pictures of windows with PyAV from the beginning of each video: only frame numbers come from our index."""
    from bench.compare.check_frames import frames_of
    from readers.formats.lerobot.frame_batch import value_or_raise

    pictures = {}
    for number, camera in enumerate(map(dataset.camera, range(len(dataset.cameras)))):
        windows = []
        batch = dataset.batch(indices)
        for place, found in zip(batch.places, camera.shown(batch), strict=True):
            frames = value_or_raise(found).frames.tolist()
            path = dataset.root / dataset.videos.files.name(camera.video(place))
            shown = frames_of(path, set(frames), camera.size)
            windows.append([(255 * shown[frame]).round().byte().numpy() for frame in frames])
        pictures[dataset.cameras[number]] = np.array(windows)
    return pictures
