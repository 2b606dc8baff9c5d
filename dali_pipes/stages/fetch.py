"""The first stage: positions in an epoch become encoded samples with their draws, bad samples dealt with."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dali_pipes.errors import DecodeError, LoaderError
from dali_pipes.monitoring.recorder import Recorder
from dali_pipes.monitoring.work import Rows
from dali_pipes.runs.bad_samples import BadRecord, Policy, substitute
from dali_pipes.samples.fields import FieldReader, Values
from dali_pipes.samples.image_fields import ImageFields
from dali_pipes.samples.labels import checked_label
from dali_pipes.samples.read_field import FieldError
from dali_pipes.samples.targets import Found, TargetReader
from dali_pipes.stages.data import NOTHING, Fetched
from dali_pipes.stages.encoded_image import image_of
from dali_pipes.stages.encoded_rows import (
    READ,
    SIZED,
    UNREAD,
    Encoded,
    LazyRows,
    encoded_of,
    held_view,
    put,
)
from dali_pipes.stages.read_located import LocatedReader, ReadImages
from dali_pipes.steps.schedule import Plan
from dali_pipes.steps.variants import Variants
from dali_pipes.video.source import ClipSource, clip_seconds, find_clips
from gpu_aug import Draws
from gpu_aug.errors import TargetsError
from gpu_aug.frame_times import drawn_speed, frame_order
from readers import BadSample, Dataset, Sample
from readers.bucket_order import BucketOrder
from readers.first_samples import probed_samples
from readers.formats.columns import LABEL_LIMIT
from readers.image.header import image_size
from readers.label_vector import LabelShape, label_shape_of
from readers.located import Located
from readers.order import AnyOrder
from readers.sample import Payload
from readers.storage.copies import copied_sample
from readers.storage.traffic import counted

_LARGEST_GROUP = 4  # samples that are mixed


class _Sound(NamedTuple):
    """A sample with its encoded image, height and width of that, and the values of further fields."""

    sample: Sample
    data: Payload
    size: tuple[int, int]
    values: Values


class _Row(NamedTuple):
    """What stands in a row, None where it is lost; its index and repeat, and what was bad before."""

    sound: _Sound | None
    sample_index: int
    repeat: int
    records: tuple[BadRecord, ...] = ()


_Columns = tuple[Any, ...]
"""Rows before their parameters are drawn: indices, repeats, sizes, encoded, records and values as in `Fetched`."""

Read = tuple[Plan, Sequence[Sample | BadSample], NDArray[np.int64], NDArray[np.int64]]
"""The samples of a plan as they are stored, where they stand in the dataset, and their repeats, int64 [n] each."""


@dataclass(frozen=True, slots=True)
class Fetcher:
    """Fetches the samples of plans; it keeps nothing, so any thread may use it.

    Args:
        dataset: The dataset of encoded samples.
        variants: Draw the parameters.
        order: Says which sample stands at which position.
        seed: The seed of the draws and of the substitutes.
        policy: The handling of bad samples.
        max_pixels: Larger images count as bad.
        targets: Reads what belongs to an image and moves with it.
        recorder: Gets what is read, looked at and drawn.
        fields: Reads the further fields of a batch.
        images: Which fields are the images, and of what kind these are.

    Attributes:
        clips: Metadata of the clips, if samples are clips.
        label_shape: Shape of every label, as the dataset says it.
    """

    dataset: Dataset
    variants: Variants
    order: AnyOrder
    seed: int
    policy: Policy
    max_pixels: int
    targets: TargetReader
    recorder: Recorder
    fields: FieldReader = field(default_factory=lambda: FieldReader({}))
    images: ImageFields = field(default_factory=ImageFields)
    clips: ClipSource | None = field(init=False)
    label_shape: LabelShape = field(init=False)
    _reader: LocatedReader | None = field(init=False)
    _examples: list[list[Found]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        object.__setattr__(self, "label_shape", label_shape_of(self.dataset))
        object.__setattr__(self, "clips", find_clips(self.dataset))
        # Samples that are more than an image and a class number are made one by one.
        more = self.clips is not None or self.fields.fields or self.targets.maps
        can = (
            not more and self.images.is_usual and not self.images.fields and self.label_shape == ()
        )
        # Asked of the class: a user's dataset that passes on what it lacks to another one has samples of its own.
        can = can and hasattr(type(self.dataset), "locate")
        object.__setattr__(self, "_reader", LocatedReader() if can else None)

    @property
    def num_frames(self) -> int:
        """Frames of a clip; 0 where samples are images."""
        return self.clips.num_frames if self.clips is not None else 0

    @property
    def images_per_row(self) -> int:
        """Images of a sample: the frames of a clip, or its own."""
        return self.num_frames or self.images.count

    def fetch(self, plan: Plan) -> Fetched:
        """Fetch the samples of a plan, look at their headers and draw their parameters."""
        if self._reader is None:
            return self._fetch_each(*self.read(plan))
        indices, repeats = self.order.places(plan.epoch, plan.positions)
        recorder, work = self.recorder, Rows(plan, self.dataset, indices)
        with recorder.measure("read", work=work) as call, counted(recorder.traffic):
            located = self.dataset.locate(indices, self._reads)  # type: ignore[attr-defined]
            if located is None:
                samples = self._read(call, indices)
            else:
                labels = located.labels
                wanted = located.is_located & (labels >= -1) & (labels < LABEL_LIMIT)
                images = self._reader.read(located, wanted.astype(np.uint8))
                call.samples = int((images.states != UNREAD).sum())
                call.num_bytes = int(images.spans[:, 1].sum())
        if located is None:
            return self._fetch_each(plan, samples, indices, repeats)
        return self._fetch_together(plan, indices, repeats, located, images)

    def _fetch_each(
        self,
        plan: Plan,
        samples: Sequence[Sample | BadSample],
        indices: NDArray[np.int64],
        repeats: NDArray[np.int64],
    ) -> Fetched:
        """As `fetch`, of samples that were read one by one."""
        rows = self._checked(plan, samples, indices, repeats)
        work = Rows(plan, [sample.key for sample in samples])
        with self.recorder.measure("draw", samples=len(rows), work=work):
            return self._drawn(plan, plan.positions, self._columns(rows))

    def _fetch_together(
        self,
        plan: Plan,
        indices: NDArray[np.int64],
        repeats: NDArray[np.int64],
        located: Located,
        images: ReadImages,
    ) -> Fetched:
        """As `fetch`, of samples whose images were read together, without objects of each.

        What could not be read so is fetched again one by one, which words the reason.
        """
        arenas, spans, sizes, states = images
        recorder, work = self.recorder, Rows(plan, self.dataset, indices)
        make_sample = located.make_sample  # not what holds descriptors open

        def data(row: int) -> Payload:
            return held_view(arenas, *spans[row])

        with recorder.measure("header", work=work) as call:
            for row in np.flatnonzero(states == READ).tolist():  # no usual JPEGs
                if (size := image_size(data(row))) is not None:
                    sizes[row], states[row] = size, SIZED
            is_sound = (states == SIZED) & (sizes.prod(axis=1) <= self.max_pixels)
            rows, everything = np.flatnonzero(~is_sound), range(len(indices))
            call.samples = len(indices) - len(rows)
        encoded = Encoded(
            spans,
            is_sound,
            LazyRows(lambda row: make_sample(row, data(row)), everything),
            LazyRows(data, everything),
            located.labels,
            located.restarts,
            located.make_keys(),
            is_plain=True,
        )
        nothing: list[Any] = [()] * len(indices)
        columns: _Columns = (indices, repeats, sizes, encoded, nothing, nothing)
        if rows.size:
            samples = self._fetch_all(plan, indices[rows])
            checked = self._checked(plan, samples, indices[rows], repeats[rows])
            others = self._columns(checked)
            columns = tuple(put(mine, rows, new) for mine, new in zip(columns, others, strict=True))
        with recorder.measure("draw", samples=len(indices), work=work):
            return self._drawn(plan, plan.positions, columns)

    def _checked(
        self,
        plan: Plan,
        samples: Sequence[Sample | BadSample],
        indices: NDArray[np.int64],
        repeats: NDArray[np.int64],
    ) -> list[_Row]:
        """Look at the headers of samples, and deal with bad ones."""
        work = Rows(plan, [sample.key for sample in samples])
        with self.recorder.measure("header", samples=len(samples), work=work):
            rows = []
            for sample, index, repeat in zip(
                samples, indices.tolist(), repeats.tolist(), strict=True
            ):
                checked = self._check(sample)
                if isinstance(checked, BadSample):
                    rows.append(self._substitute(plan, checked, _Row(None, index, repeat)))
                else:
                    rows.append(_Row(checked, checked.sample.index, repeat))
            return rows

    def read(self, plan: Plan) -> Read:
        """Read the samples of a plan as they are stored."""
        indices, repeats = self.order.places(plan.epoch, plan.positions)
        return plan, self._fetch_all(plan, indices), indices, repeats

    def candidate(
        self, plan: Plan, records: Sequence[BadRecord]
    ) -> tuple[Sample | BadSample, int] | None:
        """A sample that may take the place of a bad one, and its repeat; None where there is none.

        Args:
            plan: The step of the bad one.
            records: The bad one, and the substitutes that were bad, too.
        """
        start, stop = self._stretch(plan)
        position = substitute(self.seed, records, stop - start)
        if position is None:
            return None
        # Through the order, so that weights hold for substitutes, too.
        index, repeats = self.order.places(plan.epoch, np.array([start + position]))
        return self._fetch_all(plan, index)[0], int(repeats[0])

    def identities(
        self, indices: NDArray[np.int64], repeats: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """By which numbers samples are drawn for, int64 [n]: one that comes again in an epoch has another each time."""
        return indices + repeats * len(self.dataset)

    def finish(self, plan: Plan) -> None:
        """Close what is open for the loop of a plan, which is over: nothing, where samples are read at random."""

    def lose(self, fetched: Fetched, row: int, error: DecodeError | TargetsError) -> Fetched:
        """Return what takes the place of a row that is bad: the row without its sample, or its substitute."""
        stage = "decode" if isinstance(error, DecodeError) else "targets"
        index = int(fetched.indices[row])
        bad = BadSample(index, fetched.key(row), stage, str(error))  # type: ignore[arg-type]
        before = _Row(None, index, int(fetched.repeats[row]), fetched.records[row])
        instead = self._substitute(fetched.plan, bad, before)
        columns = self._columns([instead])
        return self._drawn(fetched.plan, fetched.positions[row : row + 1], columns)

    def keep(self, fetched: Fetched, row: int, held: Mapping[int, int], num_frames: int) -> Fetched:
        """Return a clip that is shown though it is damaged, with a record of that and the frames that are shown.

        Args:
            fetched: Holds the clip.
            row: Where it is.
            held: Its frames that cannot be decoded, each with the one that is shown in its place.
            num_frames: Frames of its video.
        """
        assert self.clips is not None
        one = fetched.rows(row, row + 1)
        frames = np.array([[held.get(frame, frame) for frame in one.frames[0].tolist()]])
        reason = (
            f"the clip was kept, but {len(held)} of its frames cannot be decoded, first frame {min(held)} of "
            f"{num_frames}; in the place of each is the last good one before it"
        )
        bad = BadSample(int(one.indices[0]), one.key(0), "decode", reason)
        record = replace(_record(one.plan, bad), kept=True)
        seconds = clip_seconds(self.clips, one.indices, frames)
        return replace(one, frames=frames, seconds=seconds, records=[(*one.records[0], record)])

    def read_targets(self, fetched: Fetched, row: int) -> Found:
        """Read the targets of a row.

        Raises:
            TargetsError: They are bad.
        """
        sample = None if fetched.encoded.is_plain else fetched.samples[row]
        if sample is None or not self.targets.wants(sample.fields):
            return NOTHING
        height, width = fetched.sizes[row].tolist()
        with self.recorder.measure("targets", samples=1):
            return self.targets.read(sample.fields, (height, width))

    def example_targets(self) -> list[Found]:
        """Return targets of samples that together have every kind that the data have, for batches that lost all of their rows."""
        if not self._examples:  # they are looked for once
            self._examples.append(self._find_targets() if self.targets.kinds else [])
        return self._examples[0]

    def _find_targets(self) -> list[Found]:
        examples: dict[frozenset[str], Found] = {}
        for sample in probed_samples(self.dataset):
            checked = self._check(self.owned(sample))
            if not isinstance(checked, BadSample):
                with suppress(
                    TargetsError
                ):  # its own step records it, and another sample serves here
                    found = self.targets.read(checked.sample.fields, checked.size)
                    examples.setdefault(found.targets.names, found)
        return [*examples.values()]

    def wants_targets(self, fetched: Fetched, row: int) -> bool:
        """Whether a row may have targets; asking is cheap."""
        return bool(self.rows_with_targets(fetched, [row]))

    def rows_with_targets(self, fetched: Fetched, rows: Sequence[int]) -> list[int]:
        """Which of some rows may have targets; those of the same fields are alike."""
        if fetched.encoded.is_plain:
            return []
        samples, alike = fetched.samples, dict[tuple[str, ...], bool]()
        wanted = []
        for row in rows:
            if (sample := samples[row]) is None:
                continue
            names = tuple(sample.fields)
            if names not in alike:
                alike[names] = self.targets.wants(sample.fields)
            if alike[names]:
                wanted.append(row)
        return wanted

    def resized(self, fetched: Fetched, sizes: NDArray[np.int64]) -> Fetched:
        """Return samples whose images turned out to have other sizes, int64 [n, 2], drawn for these."""
        draws = self._draw(fetched.plan, fetched.positions, fetched.indices, fetched.repeats, sizes)
        return replace(fetched, sizes=sizes, draws=draws)

    def drawn_for(
        self, fetched: Fetched, row: int, size: tuple[int, int]
    ) -> tuple[tuple[Draws, ...], int]:
        """Return the draws of a row for pictures of a size, and its row in them: a clip's cameras differ in it.

        Raises:
            DecodeError: The recipe makes pictures of another size of them.
        """
        if tuple(fetched.sizes[row].tolist()) == size:
            return fetched.draws, row
        one = slice(row, row + 1)
        sizes = np.array([size], np.int64)
        rows = fetched.positions[one], fetched.indices[one], fetched.repeats[one]
        draws = self._draw(fetched.plan, *rows, sizes)
        pairs = zip(draws, fetched.draws, strict=True)
        if not all(np.array_equal(a.crops.canvas[0], b.crops.canvas[row]) for a, b in pairs):
            raise DecodeError(
                f"a camera of it has {size[0]}x{size[1]} pixels, another {fetched.sizes[row, 0]}x"
                f"{fetched.sizes[row, 1]}, though meta/info.json says that both are alike"
            )
        return draws, 0

    def _columns(self, rows: Sequence[_Row]) -> _Columns:
        """Return rows that were read one by one."""
        sounds = [row.sound for row in rows]
        sizes = np.array([(1, 1) if one is None else one.size for one in sounds], np.int64)
        encoded = encoded_of(
            [None if one is None else one.sample for one in sounds],
            [None if one is None else one.data for one in sounds],
            self.label_shape,
        )
        return (
            np.array([row.sample_index for row in rows], np.int64),
            np.array([row.repeat for row in rows], np.int64),
            sizes.reshape(-1, 2),
            encoded,
            [row.records for row in rows],
            [() if one is None else one.values for one in sounds],
        )

    def _drawn(self, plan: Plan, positions: NDArray[np.int64], columns: _Columns) -> Fetched:
        """Draw the parameters of rows, and choose the frames of their clips."""
        indices, repeats, sizes, encoded, records, values = columns
        draws = self._draw(plan, positions, indices, repeats, sizes)
        frames, seconds = self._choose_frames(plan, indices, repeats, draws)
        return Fetched(
            plan,
            positions,
            indices,
            repeats,
            encoded,
            sizes,
            records,
            draws,
            frames,
            seconds,
            values,
        )

    def _draw(
        self,
        plan: Plan,
        positions: NDArray[np.int64],
        indices: NDArray[np.int64],
        repeats: NDArray[np.int64],
        sizes: NDArray[np.int64],
    ) -> tuple[Draws, ...]:
        """Draw parameters; a sample that comes again in an epoch has others each time."""
        identities = self.identities(indices, repeats)
        start, stop = self._stretch(plan)
        # Groups of neighbours begin where a bucket does, and no two buckets share one.
        moved = -start % _LARGEST_GROUP + _LARGEST_GROUP * plan.bucket
        return self.variants.views[plan.variant].draw(
            self.seed,
            plan.epoch,
            identities,
            sizes,
            positions=positions + moved,
            length=stop + moved,
        )

    def _stretch(self, plan: Plan) -> tuple[int, int]:
        """The positions that a plan's samples and their substitutes come from."""
        if isinstance(self.order, BucketOrder):
            return self.order.stretch(plan.bucket)
        return 0, len(self.order)

    def _choose_frames(
        self,
        plan: Plan,
        indices: NDArray[np.int64],
        repeats: NDArray[np.int64],
        draws: Sequence[Draws],
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Choose the frames of clips: int64 and float64 [n, T], which ones and when they are shown."""
        clips, recipe = self.clips, self.variants.views[plan.variant].recipes[0]
        if clips is None:
            return np.zeros((len(indices), 0), np.int64), np.zeros((len(indices), 0))
        identities = self.identities(indices, repeats)
        speed = drawn_speed(recipe, draws[0])
        chosen = clips.choose(self.seed, plan.epoch, indices, identities, speed)
        order = frame_order(recipe, draws[0], clips.num_frames)
        frames = np.take_along_axis(chosen, order, axis=1)
        return frames, clip_seconds(clips, indices, frames)

    def _fetch_all(self, plan: Plan, indices: NDArray[np.int64]) -> Sequence[Sample | BadSample]:
        """Read samples as they are stored."""
        recorder, work = self.recorder, Rows(plan, self.dataset, indices.tolist())
        with recorder.measure("read", work=work) as call, counted(recorder.traffic):
            return self._read(call, indices)

    def _read(self, call: Any, indices: NDArray[np.int64]) -> Sequence[Sample | BadSample]:
        """Read samples within a call of the stage; those of mapped files are copied, which is what reads them."""
        samples = list(map(self.owned, self.dataset.fetch(indices)))
        call.samples = len(samples)
        if self.clips is None:  # of a video only a part is read
            sound = (one for one in samples if isinstance(one, Sample))
            call.num_bytes = sum(len(one.image or b"") for one in sound)
        if len(samples) != len(indices):
            raise LoaderError(
                f"dataset.fetch returned {len(samples)} samples for {len(indices)} indices; it must return a Sample "
                f"or a BadSample for each, in their order"
            )
        return samples

    def owned(self, sample: Sample | BadSample) -> Sample | BadSample:
        """Return a sample with the images that were asked for, and copies of what lies in mapped files."""
        if isinstance(sample, BadSample):
            return sample
        if self.images.fields:
            if missing := self.images.missing(sample):
                return BadSample(sample.index, sample.key, "read", missing)
            sample = self.images.chosen(sample)
        if self.clips is None and _has_views(sample):
            return copied_sample(sample, self._reads)
        return sample

    def _check(self, sample: Sample | BadSample) -> _Sound | BadSample:
        if isinstance(sample, BadSample):
            return sample
        try:
            sample = checked_label(sample, self.label_shape)
        except ValueError as error:
            return BadSample(sample.index, sample.key, "read", str(error))
        image = image_of(sample, max_pixels=self.max_pixels, of_clips=self.clips is not None)
        if isinstance(image, BadSample):
            return image
        try:
            values = self._read_fields(sample)
        except FieldError as error:
            return BadSample(sample.index, sample.key, "fields", str(error))
        return _Sound(sample, *image, values)

    def _read_fields(self, sample: Sample) -> Values:
        if not self.fields.fields:
            return ()
        with self.recorder.measure("targets", samples=1):
            return self.fields.read(sample)

    def _reads(self, name: str) -> bool:
        """Whether a field beside the image will be read."""
        return self.targets.reads(name) or self.images.reads(name)

    def _substitute(self, plan: Plan, bad: BadSample, row: _Row) -> _Row:
        """Record a bad sample, and fill its row with another one where the policy says so."""
        records = (*row.records, _record(plan, bad))
        while self.policy == "replace":
            found = self.candidate(plan, records)
            if found is None:
                break
            checked = self._check(found[0])
            if not isinstance(checked, BadSample):
                return _Row(checked, checked.sample.index, found[1], records)
            records = (*records, _record(plan, checked))
        return row._replace(records=records)


def _record(plan: Plan, bad: BadSample) -> BadRecord:
    return BadRecord(bad.key, bad.index, bad.stage, bad.reason, plan.epoch, plan.step, plan.rank)


def _has_views(sample: Sample) -> bool:
    return any(isinstance(payload, memoryview) for payload in sample.fields.values())
