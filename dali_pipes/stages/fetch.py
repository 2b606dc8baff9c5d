"""The first stage: turn positions in an epoch into encoded samples with their draws, and replace bad samples."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dali_pipes.errors import DecodeError
from dali_pipes.monitoring.work import Rows
from dali_pipes.samples.targets import SampleTargets
from dali_pipes.stages.data import NO_TARGETS, Fetched, no_frames
from dali_pipes.stages.encoded_rows import (
    READ,
    SIZED,
    UNREAD,
    LazyRows,
    encoded_columns,
    held_view,
)
from dali_pipes.stages.read_located import LocatedReader, ReadImages
from dali_pipes.stages.read_samples import Row, SampleReader, record_of
from dali_pipes.steps.schedule import Plan
from dali_pipes.video.source import NOT_FOUND, clip_seconds
from gpu_aug import Draws
from gpu_aug.errors import TargetsError
from gpu_aug.frame_times import drawn_speed, frame_order
from gpu_aug.views import CameraRecipes
from readers import BadSample
from readers.datasets.located import Located
from readers.formats.columns import LABEL_LIMIT
from readers.image.header import image_size
from readers.sample import Payload
from readers.storage.traffic import counted
from readers.storage.unreadable import is_transient
from readers.video import VideoError

# Mosaic mixes the most samples, four. Groups of neighbours have this size for every recipe, so that recipes share one order.
LARGEST_GROUP = 4


@dataclass(frozen=True, slots=True)
class Fetcher(SampleReader):
    """Fetches the samples of plans and draws their parameters; the arguments are those of SampleReader.

    If the dataset can locate its images in files, and only images and class numbers are read, compiled code reads all
    images of a step together, without a Python object for each.
    """

    _reader: LocatedReader | None = field(init=False)

    def __post_init__(self) -> None:
        SampleReader.__post_init__(self)  # super() does not work in dataclasses with slots
        is_more = self.clips is not None or self.fields.fields or self.targets.maps
        is_plain = self.images.is_usual and not self.images.fields and self.label_shape == ()
        # Looked up on the class: a wrapper's `__getattr__` may expose the `locate` of the wrapped dataset.
        can_locate = hasattr(type(self.dataset), "locate")
        reader = LocatedReader() if can_locate and is_plain and not is_more else None
        object.__setattr__(self, "_reader", reader)

    @property
    def has_jpegs(self) -> bool:
        """Whether our JPEG decoder can decode images of the dataset."""
        return self.clips is None and self.images.is_usual

    def fetch(self, plan: Plan) -> Fetched:
        """Fetch the samples of a plan, check their headers and draw their parameters."""
        fetched = self._fetch_rows(plan)
        with self.recorder.measure("draw", samples=len(fetched), work=fetched.work):
            return self._draw(fetched)

    def _fetch_rows(self, plan: Plan) -> Fetched:
        """Fetch the samples of a plan without drawing parameters."""
        if self._reader is None:
            plan, samples, indices, repeats = self.read(plan)
            return self._rows(plan, self.check_rows(plan, samples, indices, repeats))
        indices, repeats = self.order.places(plan.epoch, plan.positions)
        recorder, work = self.recorder, Rows(plan, self.dataset, indices)
        with recorder.measure("read", work=work) as call, counted(recorder.traffic):
            located = self.dataset.locate(indices, self.reads)  # type: ignore[attr-defined]
            if located is None:
                samples = self.read_within(call, indices)
            else:
                labels = located.labels
                wanted = located.is_located & (labels >= -1) & (labels < LABEL_LIMIT)
                images = self._reader.read(located, wanted.astype(np.uint8))
                call.samples = int((images.states != UNREAD).sum())
                call.num_bytes = int(images.spans[:, 1].sum())
        if located is None:
            return self._rows(plan, self.check_rows(plan, samples, indices, repeats))
        return self._rows_together(plan, indices, repeats, located, images)

    def _rows_together(
        self,
        plan: Plan,
        indices: NDArray[np.int64],
        repeats: NDArray[np.int64],
        located: Located,
        images: ReadImages,
    ) -> Fetched:
        """Return the rows of a plan whose images were read together; images that failed are read again one by one.

        The second reading finds the reason of the failure for the bad-sample record.
        """
        arenas, spans, sizes, states = images
        # A local name, so that lambdas do not keep `located` and its open descriptors alive.
        make_sample = located.make_sample

        def data(row: int) -> Payload:
            return held_view(arenas, *spans[row])

        with self.recorder.measure("header", work=Rows(plan, self.dataset, indices)) as call:
            for row in np.flatnonzero(states == READ).tolist():  # files other than usual JPEGs
                if (size := image_size(data(row))) is not None:
                    sizes[row], states[row] = size, SIZED
            is_sound = (states == SIZED) & (sizes.prod(axis=1) <= self.max_pixels)
            rows, everything = np.flatnonzero(~is_sound), range(len(indices))
            call.samples = len(indices) - len(rows)
        nothing: list[Any] = [()] * len(indices)
        frames, seconds = no_frames(len(indices))
        fetched = Fetched(
            plan=plan,
            positions=plan.positions,
            indices=indices,
            repeats=repeats,
            spans=spans,
            has_sample=is_sound,
            samples=LazyRows(lambda row: make_sample(row, data(row)), everything),
            data=LazyRows(data, everything),
            labels=located.labels,
            restarts=located.restarts,
            keys=located.make_keys(),
            is_plain=True,
            sizes=sizes,
            records=nothing,
            draws=(),
            frames=frames,
            seconds=seconds,
            values=nothing,
        )
        if not rows.size:
            return fetched
        samples = self.read_at(plan, indices[rows])
        checked = self.check_rows(plan, samples, indices[rows], repeats[rows])
        return fetched.with_rows(rows, self._rows(plan, checked))

    def _rows(self, plan: Plan, rows: Sequence[Row]) -> Fetched:
        """Return a step, still without draws, from the rows of a plan that were read one by one."""
        sounds = [row.sound for row in rows]
        columns = encoded_columns(
            [None if one is None else one.sample for one in sounds],
            [None if one is None else one.data for one in sounds],
            self.label_shape,
        )
        sizes = np.array([(1, 1) if one is None else one.size for one in sounds], np.int64)
        frames, seconds = no_frames(len(rows))
        return Fetched(
            plan=plan,
            positions=plan.positions,
            indices=np.array([row.sample_index for row in rows], np.int64),
            repeats=np.array([row.repeat for row in rows], np.int64),
            **columns,
            sizes=sizes.reshape(-1, 2),
            records=[row.records for row in rows],
            draws=(),
            frames=frames,
            seconds=seconds,
            values=[() if one is None else one.values for one in sounds],
        )

    def _draw(self, fetched: Fetched) -> Fetched:
        """Return rows with their drawn parameters and, for clips, the frames that the draws choose."""
        draws = self._draws(fetched, self._sizes_by_view(fetched))
        chosen, seconds = self._choose_frames(fetched, draws)
        is_bad = chosen == NOT_FOUND
        frames = np.where(is_bad, 0, chosen)
        drawn = replace(fetched, draws=draws, frames=frames, seconds=seconds)
        for row in np.flatnonzero(is_bad.any(axis=1)).tolist():
            if drawn.data[row] is not None:
                error = DecodeError(
                    "the images of its clip cannot be chosen: the tables or the video that list them were read for the "
                    "sample, but could not be read again"
                )
                drawn = drawn.replaced(row, self.replace_row(drawn, row, error))
        return drawn

    def _sizes_by_view(self, fetched: Fetched) -> NDArray[np.int64]:
        """Return the sizes of the source images, int64 [n, 2]; for groups of cameras int64 [groups, n, 2].

        The size of a group is that of its first camera that the sample has; `drawn_for` draws for cameras with another size.
        """
        views, clips = self.variants.views[fetched.plan.variant], self.clips
        if clips is None or not isinstance(views, CameraRecipes):
            return fetched.sizes
        sizes = np.tile(fetched.sizes, (len(views), 1, 1))
        for row in np.flatnonzero(fetched.has_sample).tolist():
            # The size of the first picture remains for a row whose videos cannot be read: the decode stage replaces it.
            with suppress(VideoError):
                parts = clips.parts(int(fetched.indices[row]))
                shown = {part.columns.start: (part.info.height, part.info.width) for part in parts}
                for view, group in enumerate(views.groups):
                    starts = [clips.cameras[name].start for name in group]
                    sizes[view, row] = next(
                        (shown[n] for n in starts if n in shown), sizes[view, row]
                    )
        return sizes

    def _draws(self, fetched: Fetched, sizes: NDArray[np.int64]) -> tuple[Draws, ...]:
        """Return drawn parameters for images of the given sizes, int64 [n, 2] or [views, n, 2].

        If an epoch has a sample several times, each repeat gets other parameters.
        """
        plan = fetched.plan
        start, stop = self.positions_of(plan)
        # Groups of neighbours start at the start of a bucket, so that no group spans two buckets.
        moved = -start % LARGEST_GROUP + LARGEST_GROUP * plan.bucket
        return self.variants.views[plan.variant].draw(
            self.seed,
            plan.epoch,
            self.identities(fetched.indices, fetched.repeats),
            sizes,
            positions=fetched.positions + moved,
            length=stop + moved,
            boxes=self._boxes(fetched, sizes),
        )

    def _boxes(
        self, fetched: Fetched, sizes: NDArray[np.int64]
    ) -> list[NDArray[np.float64]] | None:
        """Return the boxes of each row, on which some recipes' draws depend; None if those of the step's recipe do not.

        A row without boxes, or with bad ones, counts as one with 0 boxes. A row with bad ones is replaced when all its targets are
        read.
        """
        if not self.variants.views[fetched.plan.variant].needs_boxes:
            return None
        boxes = [np.empty((0, 4))] * len(fetched)
        for row in self.rows_with_targets(fetched, range(len(fetched))):
            sample = fetched.samples[row]
            assert sample is not None
            height, width = sizes[row].tolist()
            boxes[row] = self.targets.read_boxes(sample.fields, (height, width))
        return boxes

    def identities(
        self, indices: NDArray[np.int64], repeats: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the numbers from which the parameters of samples are drawn, int64 [n].

        If an epoch has a sample several times, each repeat has its own number.
        """
        return indices + repeats * len(self.dataset)

    def _choose_frames(
        self, fetched: Fetched, draws: Sequence[Draws]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Choose the frames of clips, and of depth cameras.

        Returns:
            Frame numbers, int64 [n, T + D], and their times in seconds, float64 [n, T + D].
        """
        clips, plan, indices = self.clips, fetched.plan, fetched.indices
        if clips is None:
            return no_frames(len(indices))
        recipe = self.variants.views[plan.variant].recipes[0]
        identities = self.identities(indices, fetched.repeats)
        speed = drawn_speed(recipe, draws[0])
        chosen = clips.choose(self.seed, plan.epoch, indices, identities, speed)
        order = frame_order(recipe, draws[0], chosen.shape[1])
        frames = np.take_along_axis(chosen, order, axis=1)
        # The times of frames that are not found do not matter: their rows are replaced.
        return frames, clip_seconds(clips, indices, np.maximum(frames, 0))

    def resized(self, fetched: Fetched, sizes: NDArray[np.int64]) -> Fetched:
        """Return samples with corrected image sizes, int64 [n, 2], and parameters drawn for them."""
        return replace(fetched, sizes=sizes, draws=self._draws(fetched, sizes))

    def drawn_for(
        self, fetched: Fetched, row: int, size: tuple[int, int], views: Sequence[int]
    ) -> tuple[list[Draws], int]:
        """Return the draws for one row of a clip if its pictures have the given size, and the row's index in the draws.

        The size may differ from that of the first picture, because the cameras of a clip may differ in size.

        Args:
            fetched: The step with the clip.
            row: Index of the clip's row in `fetched`.
            size: Height and width of the pictures.
            views: The views that show the pictures, whose draws are returned.

        Raises:
            DecodeError: For pictures of this size, the recipe makes images of a different output size.
        """
        usual = [fetched.draws[view] for view in views]
        height, width = usual[0].sizes[row].tolist()
        if (height, width) == size:
            return usual, row
        redrawn = self._draws(fetched.rows(row, row + 1), np.array([size], np.int64))
        draws = [redrawn[view] for view in views]
        pairs = zip(draws, usual, strict=True)
        if not all(np.array_equal(a.crops.canvas[0], b.crops.canvas[row]) for a, b in pairs):
            raise DecodeError(
                f"a camera of it has {size[0]}x{size[1]} pixels, another {height}x{width}, though meta/info.json says "
                "that both are alike"
            )
        return draws, 0

    def replace_row(self, fetched: Fetched, row: int, error: DecodeError | TargetsError) -> Fetched:
        """Return a one-row step that replaces a bad sample: with its substitute, or without a sample."""
        stage = "decode" if isinstance(error, DecodeError) else "targets"
        one = fetched.rows(row, row + 1)
        index = int(one.indices[0])
        is_passing = is_transient(error)
        bad = BadSample(index, one.key(0), stage, str(error), transient=is_passing)  # type: ignore[arg-type]
        before = Row(None, index, int(one.repeats[0]), one.records[0])
        replaced = self.replace_bad_sample(one.plan, bad, before)
        return self._draw(replace(self._rows(one.plan, [replaced]), positions=one.positions))

    def record_damage(
        self, fetched: Fetched, row: int, held: Mapping[int, int], num_frames: int
    ) -> Fetched:
        """Return the row of a damaged clip that is still used, with a record of the damage and the frames that it shows.

        Args:
            fetched: The step with the clip.
            row: Index of the clip's row in `fetched`.
            held: For each frame that cannot be decoded, the frame that is shown instead.
            num_frames: Count of frames of the video.
        """
        assert self.clips is not None
        one = fetched.rows(row, row + 1)
        frames = np.array([[held.get(frame, frame) for frame in one.frames[0].tolist()]])
        reason = (
            f"the clip was kept, but {len(held)} of its frames cannot be decoded, first frame {min(held)} of "
            f"{num_frames}; in the place of each is the last good one before it"
        )
        bad = BadSample(int(one.indices[0]), one.key(0), "decode", reason)
        records = [(*one.records[0], record_of(one.plan, bad, kept=True))]
        seconds = clip_seconds(self.clips, one.indices, frames)
        return replace(one, frames=frames, seconds=seconds, records=records)

    def read_targets(self, fetched: Fetched, row: int) -> SampleTargets:
        """Read the targets of a row.

        Raises:
            TargetsError: The targets are bad.
        """
        if not self.rows_with_targets(fetched, [row]):
            return NO_TARGETS
        sample = fetched.samples[row]
        assert sample is not None
        height, width = fetched.sizes[row].tolist()
        with self.recorder.measure("targets", samples=1):
            return self.targets.read(sample.fields, (height, width))

    def rows_with_targets(self, fetched: Fetched, rows: Sequence[int]) -> list[int]:
        """Return the rows that may have targets. This is cheap: samples with the same field names are treated alike."""
        if fetched.is_plain:
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
