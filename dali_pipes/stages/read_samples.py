"""Read the samples of a step, check their headers, and replace bad samples if the policy allows it."""

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
from dali_pipes.video.frame_cache import FrameCache
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
    """A sample whose header was checked: its encoded image, the image's height and width, and its further fields."""

    sample: Sample
    data: Payload
    size: tuple[int, int]
    values: Values


class Row(NamedTuple):
    """A row of a step: its sample, the sample's index and repeat, and the bad samples that the sample replaces.

    The sample is None if a bad sample has no substitute.
    """

    sound: SoundSample | None
    sample_index: int
    repeat: int
    records: tuple[BadRecord, ...] = ()


Read = tuple[Plan, Sequence[Sample | BadSample], NDArray[np.int64], NDArray[np.int64]]
"""The samples of a plan as stored, their indices and their repeats, int64 [n] each."""


@dataclass(frozen=True, slots=True)
class SampleReader:
    """Reads the samples of plans; it has no changing state, so any thread may use it.

    Args:
        dataset: The dataset of encoded samples.
        variants: The recipes of the run, which draw the parameters.
        order: Maps positions in the epoch to samples.
        seed: The seed of the draws and of the substitutes.
        policy: The handling of bad samples.
        max_pixels: Images with more pixels are bad samples.
        targets: Reads the masks, boxes and keypoints of images.
        recorder: Counts samples that are read, checked and drawn.
        fields: Reads the further fields of a batch.
        images: The fields that hold the images, and their channels and depth.
        frame_cache: Decoded frames of videos, for all steps of the process.

    Attributes:
        clips: Metadata of the clips; None if samples are images.
        label_shape: Shape of every label, as the dataset states it.
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
    frame_cache: FrameCache = field(default_factory=FrameCache)
    clips: ClipSource | None = field(init=False)
    label_shape: LabelShape = field(init=False)
    _examples: list[list[SampleTargets]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        object.__setattr__(self, "label_shape", label_shape_of(self.dataset))
        object.__setattr__(self, "clips", find_clips(self.dataset))

    @property
    def num_frames(self) -> int:
        """Count of frames of a clip; 0 if samples are images."""
        return self.clips.num_frames if self.clips is not None else 0

    @property
    def images_per_row(self) -> int:
        """Count of images per sample: the frames of a clip, or a sample's images."""
        return self.num_frames or self.images.count

    def read(self, plan: Plan) -> Read:
        """Return the samples of a plan as stored, with their indices and repeats."""
        indices, repeats = self.order.places(plan.epoch, plan.positions)
        return plan, self.read_at(plan, indices), indices, repeats

    def read_at(self, plan: Plan, indices: NDArray[np.int64]) -> Sequence[Sample | BadSample]:
        """Return the samples with these indices, as stored."""
        recorder, work = self.recorder, Rows(plan, self.dataset, indices.tolist())
        with recorder.measure("read", work=work) as call, counted(recorder.traffic):
            return self.read_within(call, indices)

    def read_within(self, call: Any, indices: NDArray[np.int64]) -> Sequence[Sample | BadSample]:
        """Return the samples with these indices, as stored, within a stage call that the caller has opened.

        Memory-mapped samples are copied, which triggers the actual read, so that the stage call measures it.

        Args:
            call: The call of the read stage in which the reading is measured.
            indices: int64 [n], indices in the dataset.

        Raises:
            LoaderError: The dataset returned more or fewer samples than indices.
        """
        samples = list(map(self.owned, self.dataset.fetch(indices)))
        call.samples = len(samples)
        if self.clips is None:  # videos are not copied, because only a part of each is read
            sound = (one for one in samples if isinstance(one, Sample))
            call.num_bytes = sum(len(one.image or b"") for one in sound)
        if len(samples) != len(indices):
            raise LoaderError(
                f"dataset.fetch returned {len(samples)} samples for {len(indices)} indices; it must return a Sample "
                f"or a BadSample for each, in their order"
            )
        return samples

    def owned(self, sample: Sample | BadSample) -> Sample | BadSample:
        """Return a sample with only the requested images, and with copies of memory-mapped bytes."""
        if isinstance(sample, BadSample):
            return sample
        if self.images.fields:
            if missing := self.images.missing(sample):
                return BadSample(sample.index, sample.key, "read", missing)
            sample = self.images.chosen(sample)
        is_mapped = any(isinstance(payload, memoryview) for payload in sample.fields.values())
        return copied_sample(sample, self.reads) if self.clips is None and is_mapped else sample

    def reads(self, name: str) -> bool:
        """Return whether the loader reads the field with this name, besides the image."""
        return self.targets.reads(name) or self.images.reads(name)

    def check_rows(
        self,
        plan: Plan,
        samples: Sequence[Sample | BadSample],
        indices: NDArray[np.int64],
        repeats: NDArray[np.int64],
    ) -> list[Row]:
        """Check the headers of samples, replace bad samples, and return one row per sample."""
        work = Rows(plan, [sample.key for sample in samples])
        with self.recorder.measure("header", samples=len(samples), work=work):
            return [
                self.replace_bad_sample(plan, self._check(sample), Row(None, index, repeat))
                for sample, index, repeat in zip(
                    samples, indices.tolist(), repeats.tolist(), strict=True
                )
            ]

    def replace_bad_sample(self, plan: Plan, checked: SoundSample | BadSample, row: Row) -> Row:
        """Return the row with the checked sample, or with a record of the bad sample and a substitute.

        Without a substitute, if the policy allows none or none is found, the row has no sample.
        """
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
        """Return a possible substitute for a bad sample, and the substitute's repeat; None if no further one is tried.

        Args:
            plan: The step of the bad sample.
            records: Records of the bad sample, and of the substitutes that were bad, too.
        """
        start, stop = self.positions_of(plan)
        position = substitute(self.seed, records, stop - start)
        if position is None:
            return None
        # Chosen by position in the order, so that sampling weights apply to substitutes, too.
        index, repeats = self.order.places(plan.epoch, np.array([start + position]))
        return self.read_at(plan, index)[0], int(repeats[0])

    def positions_of(self, plan: Plan) -> tuple[int, int]:
        """Return the range of positions, (start, stop), from which a plan's samples and their substitutes come."""
        if isinstance(self.order, BucketOrder):
            return self.order.stretch(plan.bucket)
        return 0, len(self.order)

    def finish(self, plan: Plan) -> None:
        """Do nothing: samples are read by index, so a loop holds no resources."""

    def example_targets(self) -> list[SampleTargets]:
        """Return the targets of a few samples that together have every kind of target in the data.

        They tell which tensors a batch without rows must have.
        """
        if not self._examples:  # the search runs once
            self._examples.append(self._find_targets() if self.targets.kinds else [])
        return self._examples[0]

    def _find_targets(self) -> list[SampleTargets]:
        examples: dict[frozenset[str], SampleTargets] = {}
        for sample in probed_samples(self.dataset):
            checked = self._check(self.owned(sample))
            if not isinstance(checked, BadSample):
                # A bad sample is skipped here; its own step records it.
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
    """Return the record of a bad sample of a step; `kept` says that the sample is used in spite of its damage."""
    return BadRecord(
        bad.key, bad.index, bad.stage, bad.reason, plan.epoch, plan.step, plan.rank, kept
    )
