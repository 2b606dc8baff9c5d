"""The types that stages pass on: Fetched -> Decoded -> Finished, and Pending for a step in progress."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from dali_pipes.monitoring.work import Rows
from dali_pipes.runs.bad_samples import BadRecord
from dali_pipes.samples.fields import Values
from dali_pipes.samples.labels import Labels
from dali_pipes.samples.targets import SampleTargets
from dali_pipes.stages.cuda_streams import Ahead
from dali_pipes.stages.encoded_rows import put
from dali_pipes.steps.schedule import Plan
from gpu_aug import Draws
from readers import Sample
from readers.sample import Payload

NO_TARGETS = SampleTargets()
"""Stands for the targets of a row that has no targets; code compares with this instance by `is`."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """Encoded samples and their draws: all samples of a plan, or consecutive ones.

    A row has no sample, and no image, if its sample was bad and has no substitute.

    Attributes:
        plan: The step of the samples.
        positions: int64 [n], positions in the epoch.
        indices: int64 [n], indices in the dataset.
        repeats: int64 [n], a different number >= 0 for each time that the epoch has the index; see
            readers.order.shuffle.AnyOrder.
        spans: int64 [n, 2], address and length in bytes of each encoded image; the length is 0 without a sample. The
            bytes stay valid as long as `data` lives.
        has_sample: bool [n], which rows have a sample.
        samples: The samples as stored; None for a row without a sample. An item may be created on each access.
        data: The encoded images; None for a row without a sample. An item may be created on each access.
        labels: Class numbers, or vectors or arrays of labels; see `collect_labels`.
        restarts: Offsets of restart intervals, see `readers.Sample.restarts`; None if no row has any.
        keys: Keys of the samples; "" for a row without a sample.
        is_plain: Whether only the images of the samples are read, without further fields.
        sizes: int64 [n, 2], height and width of the upright images.
        records: The bad samples of each row, in the order of discovery.
        draws: One entry per view; empty until parameters are drawn.
        frames: int64 [n, T + D], the frames of each clip in presentation order, and those of its depth cameras, NO_CAMERA
            where its dataset lacks a camera; 0 columns for images.
        seconds: float64 [n, T + D], times of these frames in their video, in seconds.
        values: The further fields of each row; see FieldReader.
    """

    plan: Plan
    positions: NDArray[np.int64]
    indices: NDArray[np.int64]
    repeats: NDArray[np.int64]
    spans: NDArray[np.int64]
    has_sample: NDArray[np.bool_]
    samples: Sequence[Sample | None]
    data: Sequence[Payload | None]
    labels: Labels
    restarts: Sequence[NDArray[np.int64] | None] | None
    keys: Sequence[str]
    is_plain: bool
    sizes: NDArray[np.int64]
    records: Sequence[tuple[BadRecord, ...]]
    draws: tuple[Draws, ...]
    frames: NDArray[np.int64]
    seconds: NDArray[np.float64]
    values: Sequence[Values]

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def work(self) -> Rows:
        """Names these rows in messages about the work of threads, without creating their samples."""
        return Rows(self.plan, self.keys)

    def key(self, row: int) -> str:
        """Return the key of a row's sample, also if the sample is bad."""
        return self.keys[row] if self.has_sample[row] else self.records[row][-1].key

    def rows(self, start: int, stop: int) -> "Fetched":
        """Return rows `start` to `stop` (half open)."""
        rows = slice(start, stop)
        return Fetched(
            self.plan,
            self.positions[rows],
            self.indices[rows],
            self.repeats[rows],
            self.spans[rows],
            self.has_sample[rows],
            self.samples[rows],
            self.data[rows],
            self.labels[rows],
            self.restarts and self.restarts[rows],
            self.keys[rows],
            self.is_plain,
            self.sizes[rows],
            self.records[rows],
            tuple(drawn.rows(start, stop) for drawn in self.draws),
            self.frames[rows],
            self.seconds[rows],
            self.values[rows],
        )

    def replaced(self, start: int, part: "Fetched") -> "Fetched":
        """Return a copy in which the rows of `part` replace as many rows, from row `start` on."""
        changed = self.with_rows(np.arange(start, start + len(part)), part)
        pairs = zip(self.draws, part.draws, strict=True)
        return replace(changed, draws=tuple(mine.replaced(start, new) for mine, new in pairs))

    def with_rows(self, rows: NDArray[np.int64], part: "Fetched") -> "Fetched":
        """Return a copy in which the rows of `part` replace the given rows, int64 [len(part)]; draws do not change."""
        restarts = self.restarts
        if restarts is not None or part.restarts is not None:
            new = part.restarts or [None] * len(rows)
            restarts = put(restarts or [None] * len(self), rows, new)
        return Fetched(
            self.plan,
            self.positions,
            put(self.indices, rows, part.indices),
            put(self.repeats, rows, part.repeats),
            put(self.spans, rows, part.spans),
            put(self.has_sample, rows, part.has_sample),
            put(self.samples, rows, part.samples),
            put(self.data, rows, part.data),
            put(self.labels, rows, part.labels),
            restarts,
            put(self.keys, rows, part.keys),
            self.is_plain and part.is_plain,
            put(self.sizes, rows, part.sizes),
            put(self.records, rows, part.records),
            self.draws,
            put(self.frames, rows, part.frames),
            put(self.seconds, rows, part.seconds),
            put(self.values, rows, part.values),
        )

    def mixed_draws(self) -> tuple[Draws, ...]:
        """Return draws in which no sample is mixed with a row without a sample, but with itself instead."""
        if self.has_sample.all():
            return self.draws
        is_empty, own = ~self.has_sample, np.arange(len(self))[:, None]
        return tuple(
            replace(
                drawn,
                partners=np.where(
                    is_empty[:, None] | is_empty[drawn.partners], own, drawn.partners
                ),
            )
            for drawn in self.draws
        )


def no_frames(count: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the frames and seconds of `count` samples that are images: int64 and float64 [count, 0]."""
    return np.zeros((count, 0), np.int64), np.zeros((count, 0))


def needed_part(draws: Sequence[Draws]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the smallest rectangle of each image that contains its crops of all views.

    Returns:
        int32 [n, 2], top and left; int32 [n, 2], height and width.
    """
    crops = [view.crops for view in draws]
    if len(crops) == 1:
        return crops[0].start, crops[0].shape
    start = np.minimum.reduce([crop.start for crop in crops])
    stop = np.maximum.reduce([crop.start + crop.shape for crop in crops])
    return start, stop - start


@dataclass(frozen=True, slots=True)
class Decoded:
    """Samples whose canvases are rendered, and whose targets are read.

    Attributes:
        fetched: The samples; bad ones are removed or replaced.
        targets: The targets of each row: as read, or later as moved by the first recipe.
    """

    fetched: Fetched
    targets: Sequence[SampleTargets]

    def finished(self) -> "Finished":
        """Return the step's metadata (labels, keys, draws) without its images."""
        fetched = self.fetched
        return Finished(
            plan=fetched.plan,
            indices=fetched.indices,
            keys=list(fetched.keys),
            labels=fetched.labels,
            has_sample=fetched.has_sample,
            targets=self.targets,
            records=fetched.records,
            frames=fetched.frames,
            seconds=fetched.seconds,
            draws=fetched.mixed_draws(),
            values=fetched.values,
        )


def join(step: Fetched, parts: Sequence[Decoded]) -> Decoded:
    """Return a step, joined from its decoded parts.

    Args:
        step: The step as fetched.
        parts: All parts, in order. Rows differ from those of `step` only if decoding added a bad-sample record to them.
    """
    start = 0
    for part in parts:
        for row, records in enumerate(part.fetched.records):
            if records != step.records[start + row]:
                step = step.replaced(start + row, part.fetched.rows(row, row + 1))
        start += len(part.fetched)
    return Decoded(step, [targets for part in parts for targets in part.targets])


@dataclass(frozen=True, slots=True)
class Finished:
    """All data of a finished step except its images, for E samples, including those of other ranks.

    Attributes:
        plan: The step.
        indices: int64 [E], indices in the dataset.
        keys: Keys of the samples; "" for a row without a sample.
        labels: int64 [E], -1 without a label; or float32 [E, K]; or E arrays float32 [Ki]; see `collect_labels`.
        has_sample: bool [E], False for rows whose sample was bad and has no substitute.
        targets: The targets of each row, as the first recipe moved them.
        records: The bad samples of each row.
        frames: int64 [E, T + D], the frames of each clip, and those of its depth cameras.
        seconds: float64 [E, T + D], times of these frames in their video.
        draws: One entry per view; empty if they are not needed.
        values: The further fields of each row; see FieldReader.
    """

    plan: Plan
    indices: NDArray[np.int64]
    keys: Sequence[str]
    labels: Labels
    has_sample: NDArray[np.bool_]
    targets: Sequence[SampleTargets]
    records: Sequence[tuple[BadRecord, ...]]
    frames: NDArray[np.int64]
    seconds: NDArray[np.float64]
    draws: tuple[Draws, ...]
    values: Sequence[Values]

    def __len__(self) -> int:
        return len(self.keys)


Images = tuple[torch.Tensor, ...]
"""For each view, the images of all rows of a step, [images, C, H, W]."""


class Pending:
    """A step that threads or a GPU are working on.

    Args:
        launch: Makes the step from its decoded parts: on the CPU a finished step, on a GPU a step that the side stream
            computes. The thread that takes the steps calls it.
        parts: Futures of the step's parts, in order.
        on_gpu: Whether a GPU augments, so that `start` may launch the step before `wait` is called.
    """

    def __init__(
        self,
        launch: Callable[[Sequence[Decoded]], tuple[Finished, Ahead]],
        parts: Sequence[Future[Decoded]] = (),
        *,
        on_gpu: bool = False,
    ) -> None:
        self._parts, self._on_gpu = parts, on_gpu
        self._make: Callable[[], tuple[Finished, Ahead]] = lambda: launch(
            [part.result() for part in parts]
        )

    def done(self) -> bool:
        """Return whether no thread works on the step any more."""
        return all(part.done() for part in self._parts)

    def start(self) -> None:
        """On a GPU, launch the step if every part is done, without waiting.

        Raises:
            Exception: The launch failed; `wait` launches it again.
        """
        if self._on_gpu and self.done():
            made = self._make()
            # dropped, because the parts hold the canvases on the host
            self._parts, self._make = (), lambda: made

    def wait(self) -> tuple[Finished, Images]:
        """Return the step and its images, which are ready for the current stream, once every part is done.

        Raises:
            Exception: The exception of a part.
        """
        finished, ahead = self._make()
        return finished, ahead.take()


def failed(error: Exception) -> Pending:
    """Return a step in progress whose `wait` raises the given error."""

    def launch(_: Sequence[Decoded]) -> tuple[Finished, Ahead]:
        raise error

    return Pending(launch)
