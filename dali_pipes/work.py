"""From positions in an epoch to a batch of encoded samples with their draws, bad samples dealt with."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dali_pipes import cpu, image
from dali_pipes.batch import Timings
from dali_pipes.errors import BadSampleError, DecodeError
from dali_pipes.faults import BadRecord, Policy, no_substitute, substitute
from dali_pipes.plan import Plan
from gpu_aug import Draws, Recipe
from readers import BadSample, Dataset, HeaderError, Order, Sample, read_header
from readers.sample import Payload


@dataclass(slots=True)
class Work:
    """One step's samples on the way through the stages. A lost sample leaves its row with no data."""

    plan: Plan
    indices: NDArray[np.int64]
    keys: list[str]
    labels: NDArray[np.int64]
    data: list[Payload | None]
    sizes: NDArray[np.int64]
    records: list[tuple[int, BadRecord]] = field(default_factory=list)
    failure: BadSampleError | None = None  # raised once the records are written down
    draws: Draws = field(init=False)

    def __len__(self) -> int:
        return len(self.keys)


@dataclass(frozen=True, slots=True)
class Workshop:
    """Everything that turns plans into work; stateless, so that any thread may use it.

    Args:
        dataset: Where the encoded samples come from.
        recipe: Draws the parameters.
        order: Says which sample stands at which position.
        seed: The seed of the draws and of the substitutes.
        policy: What happens to a bad sample.
        max_pixels: Larger images count as bad.
        rank: For the ledger.
        timings: Gets the seconds spent reading.
    """

    dataset: Dataset
    recipe: Recipe
    order: Order
    seed: int
    policy: Policy
    max_pixels: int
    rank: int
    timings: Timings

    def prepare(self, plan: Plan) -> Work:
        """Fetch the samples of a plan, look at their headers and draw their parameters."""
        count = len(plan.positions)
        indices = self.order.indices(plan.epoch, plan.positions)
        with self.timings.measure("read"):
            fetched = self.dataset.fetch(indices)
        sizes = np.ones((count, 2), np.int64)
        work = Work(plan, indices, [""] * count, np.full(count, -1), [None] * count, sizes)
        for row, sample in enumerate(fetched):
            checked = self._check(sample)
            if isinstance(checked, BadSample):
                work.keys[row] = checked.key
                self._lose(work, row, checked)
            else:
                _fill(work, row, *checked)
        work.draws = self.recipe.draw(self.seed, plan.epoch, work.indices, work.sizes)
        return work

    def decode(self, work: Work, row: int) -> NDArray[np.uint8] | None:
        """Decode a row's whole image on the CPU; if it is bad, do what the policy says.

        Returns:
            uint8 [height, width, 3], or None when the row is lost.
        """
        while (data := work.data[row]) is not None:
            height, width = work.sizes[row]
            try:
                return cpu.decode(data, (int(height), int(width)))
            except DecodeError as error:
                index = int(work.indices[row])
                self._lose(work, row, BadSample(index, work.keys[row], "decode", str(error)))
                self._draw_again(work, row)
        return None

    def _draw_again(self, work: Work, row: int) -> None:
        one = slice(row, row + 1)
        drawn = self.recipe.draw(self.seed, work.plan.epoch, work.indices[one], work.sizes[one])
        work.draws.put(row, drawn)

    def _check(
        self, sample: Sample | BadSample
    ) -> tuple[Sample, Payload, tuple[int, int]] | BadSample:
        if isinstance(sample, BadSample):
            return sample
        data = sample.image
        if data is None:
            names = ", ".join(sample.fields) or "none"
            return BadSample(
                sample.index, sample.key, "read", f"no image field; its fields: {names}"
            )
        size = sample.size
        if size is None:
            try:
                header = read_header(data)
            except HeaderError as error:
                return BadSample(sample.index, sample.key, "header", str(error))
            size = (header.height, header.width)
        if size[0] * size[1] > self.max_pixels:
            reason = f"{size[0]}x{size[1]} pixels, more than max_pixels={self.max_pixels}"
            return BadSample(sample.index, sample.key, "header", reason)
        return sample, data, size

    def _lose(self, work: Work, row: int, bad: BadSample) -> None:
        """Record a bad sample and empty its row, or fill it with a substitute."""
        work.data[row] = None
        work.records.append((row, self._record(work.plan, bad)))
        while self.policy == "replace" and work.data[row] is None:
            bad_so_far = [record for place, record in work.records if place == row]
            index = substitute(self.seed, bad_so_far, len(self.dataset))
            if index is None:
                work.failure = no_substitute(bad_so_far[0])
                return
            checked = self._check(self.dataset.fetch([index])[0])
            if isinstance(checked, BadSample):
                work.records.append((row, self._record(work.plan, checked)))
            else:
                _fill(work, row, *checked)

    def _record(self, plan: Plan, bad: BadSample) -> BadRecord:
        place = (plan.epoch, plan.step, self.rank)
        return BadRecord(bad.key, bad.index, bad.stage, bad.reason, *place)


def rows_for_cpu(work: Work) -> list[int]:
    """The rows that DALI must not decode: see `image.suits_dali`."""
    return [
        row for row, data in enumerate(work.data) if data is not None and not image.suits_dali(data)
    ]


def _fill(work: Work, row: int, sample: Sample, data: Payload, size: Sequence[int]) -> None:
    work.indices[row] = sample.index
    work.keys[row] = sample.key
    work.labels[row] = sample.label
    work.data[row] = data
    work.sizes[row] = size
