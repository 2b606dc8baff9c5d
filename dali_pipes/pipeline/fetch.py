"""From positions in an epoch to a batch of encoded samples with their draws, bad samples dealt with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dali_pipes.bad_samples import BadRecord, Policy, no_substitute, substitute
from dali_pipes.batch import Timings
from dali_pipes.decode import opencv
from dali_pipes.decode.dali import graph
from dali_pipes.errors import BadSampleError, DecodeError, LoaderError
from dali_pipes.schedule import Plan
from dali_pipes.targets import Found, TargetReader
from dali_pipes.video.source import ClipSource, find_clips
from gpu_aug import Draws
from gpu_aug.errors import TargetsError
from gpu_aug.frame_times import drawn_speed, frame_order
from gpu_aug.views import Views
from readers import BadSample, Dataset, HeaderError, Sample, read_header
from readers.formats.columns import LABEL_LIMIT, to_label
from readers.order import AnyOrder
from readers.sample import Payload, is_image_field, is_video_field
from readers.storage.blob.mapped import copied, mapped_file

NOTHING = Found()

_CLIPS = "videos need Clips: give the Loader Clips(dataset, num_frames=..., stride=...)"


@dataclass(slots=True)
class Work:
    """One step's samples on the way through the stages, one row for each of the plan's positions.

    A lost sample leaves its row with no data.

    Attributes:
        plan: What the step stands for.
        indices: int64 [E], positions in the dataset.
        repeats: int64 [E], tells apart the times that an epoch has one index; see readers.order.AnyOrder.
        keys: Names for people.
        labels: int64 [E], -1 where there is none.
        fields: Everything that is stored of a sample, by field name.
        data: The encoded image of each row, None where the sample is lost.
        restarts: Where its restart intervals lie, where the dataset knows that; see readers.Sample.
        sizes: int64 [E, 2], height and width of the upright images.
        found: The targets of each row: as they are stored, and once its images are finished as the first
            recipe moved them.
        records: (row, what was bad there), in the order in which it was noticed.
        failure: The error to raise once the records are written down.
        frames: int64 [E, T], the frames of each clip, places in the order of presentation; T is 0 for images. Once
            it is drawn: those that are shown, in place of damaged ones, too.
        seconds: float64 [E, T], when these are shown in their video.
        draws: One entry per view.
    """

    plan: Plan
    indices: NDArray[np.int64]
    repeats: NDArray[np.int64]
    keys: list[str]
    labels: NDArray[np.int64]
    fields: list[Mapping[str, Payload]]
    data: list[Payload | None]
    restarts: list[NDArray[np.int64] | None]
    sizes: NDArray[np.int64]
    found: list[Found]
    frames: NDArray[np.int64]
    seconds: NDArray[np.float64]
    records: list[tuple[int, BadRecord]] = field(default_factory=list)
    failure: BadSampleError | None = None
    draws: tuple[Draws, ...] = field(init=False)

    def __len__(self) -> int:
        return len(self.keys)

    def drawn(self, view: int, start: int, stop: int) -> Draws:
        """The draws of rows start to stop (half open) of a view, once it is known which rows are lost.

        A lost row is nobody's partner, and has none: who would be mixed with it is mixed with itself.
        """
        draws = self.draws[view].rows(start, stop)
        if all(data is not None for data in self.data[start:stop]):
            return draws
        lost = np.array([data is None for data in self.data[start:stop]], bool)
        alone = lost[:, None] | lost[draws.partners]
        own = np.arange(len(draws))[:, None]
        return replace(draws, partners=np.where(alone, own, draws.partners))


@dataclass(frozen=True, slots=True)
class Workshop:
    """Everything that turns plans into work; stateless, so that any thread may use it.

    Args:
        dataset: Where the encoded samples come from.
        views: Draw the parameters.
        order: Says which sample stands at which position.
        seed: The seed of the draws and of the substitutes.
        policy: What happens to a bad sample.
        max_pixels: Larger images count as bad.
        targets: Reads what belongs to an image and moves with it.
        timings: Gets the seconds spent reading.

    Attributes:
        clips: What is known of the clips, where samples are clips.
    """

    dataset: Dataset
    views: Views
    order: AnyOrder
    seed: int
    policy: Policy
    max_pixels: int
    targets: TargetReader
    timings: Timings
    clips: ClipSource | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "clips", find_clips(self.dataset))

    def prepare(self, plan: Plan) -> Work:
        """Fetch the samples of a plan, look at their headers and draw their parameters."""
        count = len(plan.positions)
        indices, repeats = self.order.places(plan.epoch, plan.positions)
        with self.timings.measure("read"):
            fetched = self.dataset.fetch(indices)
        if len(fetched) != count:
            raise LoaderError(
                f"dataset.fetch returned {len(fetched)} samples for {count} indices; it must return a Sample "
                f"or a BadSample for each, in their order"
            )
        work = Work(
            plan=plan,
            indices=indices,
            repeats=repeats,
            keys=[""] * count,
            labels=np.full(count, -1),
            fields=[{}] * count,
            data=[None] * count,
            restarts=[None] * count,
            sizes=np.ones((count, 2), np.int64),
            found=[NOTHING] * count,
            frames=np.zeros((count, self.num_frames), np.int64),
            seconds=np.zeros((count, self.num_frames)),
        )
        for row, sample in enumerate(fetched):
            checked = self._check(sample)
            if isinstance(checked, BadSample):
                work.keys[row] = checked.key
                self._lose(work, row, checked)
            else:
                _fill(work, row, *checked)
        work.draws = self.draw(work, slice(None))
        self._choose_frames(work, 0, count)
        return work

    def decode(self, work: Work, row: int) -> NDArray[np.uint8] | None:
        """Decode a row's whole image on the CPU and read its targets; lose it if either is bad.

        Returns:
            uint8 [height, width, 3], or None when the row is lost.
        """
        while (data := work.data[row]) is not None:
            height, width = work.sizes[row]
            try:
                whole = opencv.decode(data, (int(height), int(width)))
            except DecodeError as error:
                self.lose_late(work, row, "decode", error)
                continue
            if self.read_targets(work, row):
                return whole
        return None

    def read_targets(self, work: Work, row: int) -> bool:
        """Read a row's targets; if they are bad, do what the policy says and return False."""
        fields = work.fields[row]
        if not self.targets.wants(fields):
            work.found[row] = NOTHING
            return True
        height, width = work.sizes[row].tolist()
        try:
            work.found[row] = self.targets.read(fields, (height, width))
        except TargetsError as error:
            self.lose_late(work, row, "targets", error)
            return False
        return True

    def lose_late(
        self, work: Work, row: int, stage: Literal["decode", "targets"], error: Exception
    ) -> None:
        """Lose a row whose parameters are drawn, and draw those of the substitute."""
        index = int(work.indices[row])
        self._lose(work, row, BadSample(index, work.keys[row], stage, str(error)))
        drawn = self.draw(work, slice(row, row + 1))
        for draws, again in zip(work.draws, drawn, strict=True):
            draws.put(row, again)
        self._choose_frames(work, row, row + 1)

    def keep(self, work: Work, row: int, held: Mapping[int, int], num_frames: int) -> None:
        """Record that a clip was damaged and kept, and say which frames are shown.

        Args:
            work: The batch.
            row: The clip, which is drawn.
            held: Its frames that cannot be decoded, each with the one that is shown in its place.
            num_frames: Number of frames of its video.
        """
        assert self.clips is not None
        frames = np.array([held.get(frame, frame) for frame in work.frames[row].tolist()])
        work.frames[row] = frames
        work.seconds[row] = self.clips.seconds(work.indices[row : row + 1], frames[None])[0]
        reason = (
            f"the clip was kept, but {len(held)} of its frames cannot be decoded, first frame {min(held)} of "
            f"{num_frames}; in the place of each is the last good one before it"
        )
        bad = BadSample(int(work.indices[row]), work.keys[row], "decode", reason)
        work.records.append((row, replace(self._record(work.plan, bad), kept=True)))

    def draw(self, work: Work, rows: slice) -> tuple[Draws, ...]:
        """Draw the parameters of some rows; a sample that comes again in an epoch has others each time."""
        return self.views.draw(
            self.seed,
            work.plan.epoch,
            work.indices[rows] + work.repeats[rows] * len(self.dataset),
            work.sizes[rows],
            positions=work.plan.positions[rows],
            length=len(self.order),
        )

    def _choose_frames(self, work: Work, start: int, stop: int) -> None:
        """Choose the frames of the clips in rows start to stop (half open), which are drawn."""
        clips, rows = self.clips, slice(start, stop)
        if clips is None:
            return
        recipe, draws = self.views.recipes[0], work.draws[0].rows(start, stop)
        indices = work.indices[rows]
        identities = indices + work.repeats[rows] * len(self.dataset)
        speed = drawn_speed(recipe, draws)
        chosen = clips.choose(self.seed, work.plan.epoch, indices, identities, speed)
        order = frame_order(recipe, draws, clips.num_frames)
        work.frames[rows] = np.take_along_axis(chosen, order, axis=1)
        work.seconds[rows] = clips.seconds(indices, work.frames[rows])

    @property
    def num_frames(self) -> int:
        """Frames of a clip; 0 where samples are images."""
        return self.clips.num_frames if self.clips is not None else 0

    def _check(
        self, sample: Sample | BadSample
    ) -> tuple[Sample, Payload, tuple[int, int]] | BadSample:
        if self.clips is None and isinstance(sample, Sample) and _has_views(sample):
            with self.timings.measure("read"):
                sample = _in_memory(sample, self.targets)
        if isinstance(sample, BadSample):
            return sample
        if sample.label.__class__ is not int or not -1 <= sample.label < LABEL_LIMIT:
            try:  # of a dataset that does not look at them itself
                sample = replace(sample, label=to_label(sample.label))
            except ValueError as error:
                return BadSample(sample.index, sample.key, "read", str(error))
        data = sample.image
        if data is None:
            return BadSample(sample.index, sample.key, "read", _why_no_image(sample))
        size = sample.size
        if size is None:
            try:
                header = read_header(data)
            except HeaderError as error:
                named = sample.image_field  # a video where the format says that it is one
                is_video = self.clips is None and named is not None and named == sample.video_field
                reason = f"{error}; {_CLIPS}" if is_video else str(error)
                return BadSample(sample.index, sample.key, "header", reason)
            size = (header.height, header.width)
        if size[0] * size[1] > self.max_pixels:
            reason = f"{size[0]}x{size[1]} pixels, more than max_pixels={self.max_pixels}"
            return BadSample(sample.index, sample.key, "header", reason)
        return sample, data, size

    def _lose(self, work: Work, row: int, bad: BadSample) -> None:
        """Record a bad sample and empty its row, or fill it with a substitute."""
        _empty(work, row)
        work.records.append((row, self._record(work.plan, bad)))
        while self.policy == "replace" and work.data[row] is None:
            bad_so_far = [record for place, record in work.records if place == row]
            position = substitute(self.seed, bad_so_far, len(self.order))
            if position is None:
                work.failure = no_substitute(bad_so_far[0])
                return
            # Through the order, so that weights hold for substitutes, too.
            index, repeats = self.order.places(work.plan.epoch, np.array([position]))
            work.repeats[row] = repeats[0]
            checked = self._check(self.dataset.fetch(index)[0])
            if isinstance(checked, BadSample):
                work.records.append((row, self._record(work.plan, checked)))
            else:
                _fill(work, row, *checked)

    def _record(self, plan: Plan, bad: BadSample) -> BadRecord:
        place = (plan.epoch, plan.step, plan.rank)
        return BadRecord(bad.key, bad.index, bad.stage, bad.reason, *place)


def rows_for_cpu(work: Work) -> list[int]:
    """The rows that DALI must not decode: see `graph.suits_dali`."""
    return [
        row for row, data in enumerate(work.data) if data is not None and not graph.suits_dali(data)
    ]


def needed_part(draws: Sequence[Draws]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The smallest rectangle of each image that holds its windows of all views.

    Returns:
        int32 [E, 2], top and left; int32 [E, 2], height and width.
    """
    windows = [view.windows for view in draws]
    if len(windows) == 1:
        return windows[0].start, windows[0].shape
    start = np.minimum.reduce([window.start for window in windows])
    stop = np.maximum.reduce([window.start + window.shape for window in windows])
    return start, stop - start


def _has_views(sample: Sample) -> bool:
    return any(isinstance(payload, memoryview) for payload in sample.fields.values())


def _in_memory(sample: Sample, targets: TargetReader) -> Sample | BadSample:
    """Copy long fields that are used out of mapped files: decoders that find a part of one gone end the process.

    Of videos single packets are read later; of an image in restart intervals a part alone is, so that its file is
    only looked at.
    """
    image = sample.image_field or next(filter(is_image_field, sample.fields), None)
    copies = {}
    try:
        for name, payload in sample.fields.items():
            if not isinstance(payload, memoryview) or is_video_field(name):
                continue
            if name == image and sample.restarts is not None:
                file = mapped_file(payload)
                if file is not None:
                    file.check()
            elif name == image or targets.reads(name):
                copies[name] = copied(payload)
    except OSError as error:
        reason = f"its file cannot be read: {error.strerror or error}"
        return BadSample(sample.index, sample.key, "read", reason)
    return replace(sample, fields={**sample.fields, **copies}) if copies else sample


def _why_no_image(sample: Sample) -> str:
    reason = f"no image field; its fields: {', '.join(sample.fields) or 'none'}"
    return reason if sample.video is None else f"{reason}; {_CLIPS}"


def _fill(work: Work, row: int, sample: Sample, data: Payload, size: Sequence[int]) -> None:
    work.indices[row] = sample.index
    work.keys[row] = sample.key
    work.labels[row] = sample.label
    work.fields[row] = sample.fields
    work.data[row] = data
    work.restarts[row] = sample.restarts
    work.sizes[row] = size


def _empty(work: Work, row: int) -> None:
    work.data[row] = None
    work.fields[row] = {}
    work.found[row] = NOTHING
