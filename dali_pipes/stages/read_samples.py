"""Reading the samples of a step: encoded, checked by their headers, and bad ones replaced where the policy says so."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dali_pipes.errors import LoaderError
from dali_pipes.monitoring.recorder import Recorder
from dali_pipes.monitoring.work import Rows
from dali_pipes.runs.bad_samples import BadRecord, Policy, substitute
from dali_pipes.samples.fields import FieldReader, Values
from dali_pipes.samples.image_fields import ImageFields
from dali_pipes.samples.labels import checked_label
from dali_pipes.samples.read_field import FieldError
from dali_pipes.samples.targets import SampleTargets, TargetReader
from dali_pipes.stages.encoded_image import image_of
from dali_pipes.steps.schedule import Plan
from dali_pipes.steps.variants import Variants
from dali_pipes.video.source import ClipSource, find_clips
from gpu_aug.errors import TargetsError
from readers import BadSample, Dataset, Sample
from readers.datasets.first_samples import probed_samples
from readers.labels.label_vector import LabelShape, label_shape_of
from readers.order.bucket_order import BucketOrder
from readers.order.shuffle import AnyOrder
from readers.sample import Payload
from readers.storage.copies import copied_sample
from readers.storage.traffic import counted


class SoundSample(NamedTuple):
    """A sample with its encoded image, height and width of that, and the values of further fields."""

    sample: Sample
    data: Payload
    size: tuple[int, int]
    values: Values


class Row(NamedTuple):
    """A row of a step: its sample, None without one; its index and repeat, and what was bad before."""

    sound: SoundSample | None
    sample_index: int
    repeat: int
    records: tuple[BadRecord, ...] = ()


Read = tuple[Plan, Sequence[Sample | BadSample], NDArray[np.int64], NDArray[np.int64]]
"""The samples of a plan as they are stored; their indices and their repeats, int64 [n] each."""


@dataclass(frozen=True, slots=True)
class SampleReader:
    """Reads the samples of plans; it has no state, so any thread may use it.

    Args:
        dataset: The dataset of encoded samples.
        variants: Draw the parameters.
        order: Maps positions in the epoch to samples.
        seed: The seed of the draws and of the substitutes.
        policy: The handling of bad samples.
        max_pixels: Larger images count as bad.
        targets: Reads what belongs to an image and moves with it.
        recorder: Counts what is read, checked and drawn.
        fields: Reads the further fields of a batch.
        images: Which fields are the images, and of what kind these are.

    Attributes:
        clips: Metadata of the clips, if samples are clips.
        label_shape: Shape of every label, as the dataset gives it.
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
    _examples: list[list[SampleTargets]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        object.__setattr__(self, "label_shape", label_shape_of(self.dataset))
        object.__setattr__(self, "clips", find_clips(self.dataset))

    @property
    def num_frames(self) -> int:
        """Frames of a clip; 0 if samples are images."""
        return self.clips.num_frames if self.clips is not None else 0

    @property
    def images_per_row(self) -> int:
        """Images of a sample: the frames of a clip, or its own."""
        return self.num_frames or self.images.count

    def read(self, plan: Plan) -> Read:
        """Read the samples of a plan as they are stored."""
        indices, repeats = self.order.places(plan.epoch, plan.positions)
        return plan, self.read_at(plan, indices), indices, repeats

    def read_at(self, plan: Plan, indices: NDArray[np.int64]) -> Sequence[Sample | BadSample]:
        """Read samples by their indices, as they are stored."""
        recorder, work = self.recorder, Rows(plan, self.dataset, indices.tolist())
        with recorder.measure("read", work=work) as call, counted(recorder.traffic):
            return self.read_within(call, indices)

    def read_within(self, call: Any, indices: NDArray[np.int64]) -> Sequence[Sample | BadSample]:
        """As `read_at`, within a call of the stage. Memory-mapped samples are copied, which triggers the actual read.

        Raises:
            LoaderError: The dataset returned another number of samples.
        """
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
        is_mapped = any(isinstance(payload, memoryview) for payload in sample.fields.values())
        return copied_sample(sample, self.reads) if self.clips is None and is_mapped else sample

    def reads(self, name: str) -> bool:
        """Whether a field besides the image will be read."""
        return self.targets.reads(name) or self.images.reads(name)

    def check_rows(
        self,
        plan: Plan,
        samples: Sequence[Sample | BadSample],
        indices: NDArray[np.int64],
        repeats: NDArray[np.int64],
    ) -> list[Row]:
        """Check samples by their headers, and replace bad ones."""
        work = Rows(plan, [sample.key for sample in samples])
        with self.recorder.measure("header", samples=len(samples), work=work):
            return [
                self.replace_bad_sample(plan, self._check(sample), Row(None, index, repeat))
                for sample, index, repeat in zip(
                    samples, indices.tolist(), repeats.tolist(), strict=True
                )
            ]

    def replace_bad_sample(self, plan: Plan, checked: SoundSample | BadSample, row: Row) -> Row:
        """Return a row with its sample; a bad one is recorded, and replaced by another where the policy says so."""
        repeat, records = row.repeat, row.records
        while isinstance(checked, BadSample):
            records = (*records, record_of(plan, checked))
            candidate = self.candidate(plan, records) if self.policy == "replace" else None
            if candidate is None:
                return row._replace(records=records)
            sample, repeat = candidate
            checked = self._check(sample)
        return Row(checked, checked.sample.index, repeat, records)

    def candidate(
        self, plan: Plan, records: Sequence[BadRecord]
    ) -> tuple[Sample | BadSample, int] | None:
        """Return a sample that may replace a bad one, and its repeat; None if there is none.

        Args:
            plan: The step of the bad one.
            records: The bad one, and the substitutes that were bad, too.
        """
        start, stop = self.positions_of(plan)
        position = substitute(self.seed, records, stop - start)
        if position is None:
            return None
        # Through the order, so that weights hold for substitutes, too.
        index, repeats = self.order.places(plan.epoch, np.array([start + position]))
        return self.read_at(plan, index)[0], int(repeats[0])

    def positions_of(self, plan: Plan) -> tuple[int, int]:
        """Return the range of positions that a plan's samples and their substitutes come from."""
        if isinstance(self.order, BucketOrder):
            return self.order.stretch(plan.bucket)
        return 0, len(self.order)

    def finish(self, plan: Plan) -> None:
        """Release the resources of the loop of a plan; does nothing, as samples are read at random."""

    def example_targets(self) -> list[SampleTargets]:
        """Return targets of samples that together have every kind of the data, for batches without rows."""
        if not self._examples:  # searched once
            self._examples.append(self._find_targets() if self.targets.kinds else [])
        return self._examples[0]

    def _find_targets(self) -> list[SampleTargets]:
        examples: dict[frozenset[str], SampleTargets] = {}
        for sample in probed_samples(self.dataset):
            checked = self._check(self.owned(sample))
            if not isinstance(checked, BadSample):
                # A bad sample is recorded by its own step, and another one serves here.
                with suppress(TargetsError):
                    found = self.targets.read(checked.sample.fields, checked.size)
                    examples.setdefault(found.targets.names, found)
        return [*examples.values()]

    def _check(self, sample: Sample | BadSample) -> SoundSample | BadSample:
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
        return SoundSample(sample, *image, values)

    def _read_fields(self, sample: Sample) -> Values:
        if not self.fields.fields:
            return ()
        with self.recorder.measure("targets", samples=1):
            return self.fields.read(sample)


def record_of(plan: Plan, bad: BadSample, *, kept: bool = False) -> BadRecord:
    """Return the record of a bad sample of a step; see BadRecord."""
    return BadRecord(
        bad.key, bad.index, bad.stage, bad.reason, plan.epoch, plan.step, plan.rank, kept
    )
