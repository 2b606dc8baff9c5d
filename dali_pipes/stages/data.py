"""Data passed between the stages of the pipeline: fetched samples, decoded ones, finished steps."""

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
from dali_pipes.samples.targets import Found
from dali_pipes.stages.cuda_streams import Ahead
from dali_pipes.stages.encoded_rows import Encoded, put
from dali_pipes.steps.schedule import Plan
from gpu_aug import Draws
from readers import Sample
from readers.sample import Payload

NOTHING = Found()


@dataclass(frozen=True, slots=True)
class Fetched:
    """Encoded samples and their draws: all samples of a plan, or consecutive ones.

    A row whose sample is lost has no data.

    Attributes:
        plan: The step that they belong to.
        positions: int64 [n], positions in the epoch.
        indices: int64 [n], positions in the dataset.
        repeats: int64 [n], tells apart the times that an epoch has one index; see readers.order.AnyOrder.
        encoded: Their images.
        sizes: int64 [n, 2], height and width of the upright images.
        records: What was bad in each row, in the order in which it was noticed.
        draws: One entry per view.
        frames: int64 [n, T], the frames of each clip, counted in the order of presentation; T is 0 for images.
        seconds: float64 [n, T], when these are shown in their video.
        values: The further fields of each row; see FieldReader.
    """

    plan: Plan
    positions: NDArray[np.int64]
    indices: NDArray[np.int64]
    repeats: NDArray[np.int64]
    encoded: Encoded
    sizes: NDArray[np.int64]
    records: Sequence[tuple[BadRecord, ...]]
    draws: tuple[Draws, ...]
    frames: NDArray[np.int64]
    seconds: NDArray[np.float64]
    values: Sequence[Values]

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def samples(self) -> Sequence[Sample | None]:
        """The samples as they are stored, None where a row is lost; each may be made when it is asked for."""
        return self.encoded.samples

    @property
    def data(self) -> Sequence[Payload | None]:
        """The encoded images, None where a row is lost; each may be made when it is asked for."""
        return self.encoded.data

    @property
    def spans(self) -> NDArray[np.int64]:
        """Address and length in bytes of each encoded image; see `Encoded`."""
        return self.encoded.spans

    @property
    def restarts(self) -> Sequence[NDArray[np.int64] | None] | None:
        """Offsets of the restart intervals of each image; see `Encoded`."""
        return self.encoded.restarts

    @property
    def work(self) -> Rows:
        """Its rows by name, for whoever asks what a thread works on: no sample is made for that."""
        return Rows(self.plan, self.encoded.keys)

    def rows(self, start: int, stop: int) -> "Fetched":
        """Return the rows start to stop (half open)."""
        rows = slice(start, stop)
        return Fetched(
            self.plan,
            self.positions[rows],
            self.indices[rows],
            self.repeats[rows],
            self.encoded.rows(rows),
            self.sizes[rows],
            self.records[rows],
            tuple(drawn.rows(start, stop) for drawn in self.draws),
            self.frames[rows],
            self.seconds[rows],
            self.values[rows],
        )

    def replaced(self, start: int, part: "Fetched") -> "Fetched":
        """Return these rows with those of `part` from row `start` on."""
        rows = np.arange(start, start + len(part))
        return Fetched(
            self.plan,
            self.positions,
            put(self.indices, rows, part.indices),
            put(self.repeats, rows, part.repeats),
            put(self.encoded, rows, part.encoded),
            put(self.sizes, rows, part.sizes),
            put(self.records, rows, part.records),
            tuple(
                mine.replaced(start, new) for mine, new in zip(self.draws, part.draws, strict=True)
            ),
            put(self.frames, rows, part.frames),
            put(self.seconds, rows, part.seconds),
            put(self.values, rows, part.values),
        )

    def key(self, row: int) -> str:
        """The name of a row's sample for people, of a lost one as well."""
        return self.encoded.keys[row] if self.kept()[row] else self.records[row][-1].key

    def kept(self) -> NDArray[np.bool_]:
        """Which rows are not lost: bool [n]."""
        return self.encoded.is_kept

    def mixed_draws(self) -> tuple[Draws, ...]:
        """The draws, once it is known which rows are lost.

        A lost row is nobody's partner, and has none: who would be mixed with it is mixed with itself.
        """
        if self.kept().all():
            return self.draws
        lost, own = ~self.kept(), np.arange(len(self))[:, None]
        return tuple(
            replace(
                drawn,
                partners=np.where(lost[:, None] | lost[drawn.partners], own, drawn.partners),
            )
            for drawn in self.draws
        )


@dataclass(frozen=True, slots=True)
class Decoded:
    """Samples whose canvases are rendered, and whose targets are read.

    Attributes:
        fetched: The samples; those that turned out to be bad are lost, or others are in their rows.
        found: The targets of each row; once they are moved, as the first recipe moves them.
    """

    fetched: Fetched
    found: Sequence[Found]

    def finished(self) -> "Finished":
        """Return what is left to say of a step once its images are finished."""
        fetched = self.fetched
        return Finished(
            plan=fetched.plan,
            indices=fetched.indices,
            keys=list(fetched.encoded.keys),
            labels=fetched.encoded.labels,
            kept=fetched.kept(),
            found=self.found,
            records=fetched.records,
            frames=fetched.frames,
            seconds=fetched.seconds,
            draws=fetched.mixed_draws(),
            values=fetched.values,
        )


def join(whole: Fetched, parts: Sequence[Decoded]) -> Decoded:
    """Put the decoded parts of a step together.

    Args:
        whole: The step as it was fetched.
        parts: All of it, in order. A row is another one than it was only where it has more records.
    """
    start = 0
    for part in parts:
        for row, records in enumerate(part.fetched.records):
            if records != whole.records[start + row]:
                whole = whole.replaced(start + row, part.fetched.rows(row, row + 1))
        start += len(part.fetched)
    return Decoded(whole, [found for part in parts for found in part.found])


@dataclass(frozen=True, slots=True)
class Finished:
    """All data of a finished step except its images, for E samples, including those of other ranks.

    Attributes:
        plan: The step.
        indices: int64 [E], positions in the dataset.
        keys: Names for people, "" where a row is lost.
        labels: int64 [E], -1 where there is none; or float32 [E, K], or E float32 [Ki]; see `collect_labels`.
        kept: bool [E], False where a row is lost.
        found: The targets of each row, as the first recipe moved them.
        records: What was bad in each row.
        frames: int64 [E, T], which frames are shown.
        seconds: float64 [E, T], when these are shown in their video.
        draws: One entry per view, where somebody needs them.
        values: The further fields of each row; see FieldReader.
    """

    plan: Plan
    indices: NDArray[np.int64]
    keys: Sequence[str]
    labels: Labels
    kept: NDArray[np.bool_]
    found: Sequence[Found]
    records: Sequence[tuple[BadRecord, ...]]
    frames: NDArray[np.int64]
    seconds: NDArray[np.float64]
    draws: tuple[Draws, ...]
    values: Sequence[Values]

    def __len__(self) -> int:
        return len(self.keys)


Images = tuple[torch.Tensor, ...]
"""Per view the images of all rows of a step, [images, 3, H, W]."""


class Pending:
    """A step that threads or a GPU are working on.

    Args:
        launch: Makes it of its decoded parts: on the CPU finished, on a GPU what the side stream is asked for. Called by the
            thread that takes the steps.
        parts: Those that are under way.
        on_gpu: Whether there is something to launch ahead.
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
        """Whether no thread works on it any more."""
        return all(part.done() for part in self._parts)

    def start(self) -> None:
        """Launch it ahead of `wait`, on a GPU and if every part is done.

        Raises:
            Exception: The launch failed; `wait` launches it again.
        """
        if self._on_gpu and self.done():
            made = self._make()
            # Canvases on the host are not held any longer.
            self._parts, self._make = (), lambda: made

    def wait(self) -> tuple[Finished, Images]:
        """Return the step once every part is done, its images for the current stream; raise what one raised."""
        finished, ahead = self._make()
        return finished, ahead.take()


def failed(error: Exception) -> Pending:
    """A step that cannot be made."""

    def launch(_: Sequence[Decoded]) -> tuple[Finished, Ahead]:
        raise error

    return Pending(launch)


def needed_part(draws: Sequence[Draws]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The smallest rectangle of each image that holds its crops of all views.

    Returns:
        int32 [n, 2], top and left; int32 [n, 2], height and width.
    """
    crops = [view.crops for view in draws]
    if len(crops) == 1:
        return crops[0].start, crops[0].shape
    start = np.minimum.reduce([crop.start for crop in crops])
    stop = np.maximum.reduce([crop.start + crop.shape for crop in crops])
    return start, stop - start
