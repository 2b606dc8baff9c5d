"""Batches of chosen samples in chosen epochs, as training would have them, with what was drawn for them."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dali_pipes.assemble import assemble
from dali_pipes.batch import Batch
from dali_pipes.errors import BadSampleError
from dali_pipes.loader import Loader
from dali_pipes.options import Setup
from dali_pipes.pipeline.fetch import Fetcher
from dali_pipes.pipeline.make import Production
from dali_pipes.pipeline.stages import Finished
from dali_pipes.positions import positions_of
from dali_pipes.schedule import Plan, whole_groups
from gpu_aug import Draws, Views


@dataclass(frozen=True)
class Drawn:
    """Samples of one epoch.

    Attributes:
        epoch: The epoch.
        batch: The samples, float32, on the CPU.
        views: The recipes of the epoch.
        draws: What was drawn, for each view.
        rows: int64 [B], where each sample of the batch stands in the draws, which also have those that samples are
            mixed with.
        keys: Of all rows of the draws.
    """

    epoch: int
    batch: Batch
    views: Views
    draws: tuple[Draws, ...]
    rows: NDArray[np.int64]
    keys: Sequence[str]


class Drawer:
    """Makes any samples of any epoch by a loader, which has the whole dataset.

    Args:
        loader: With the order of training, where samples are mixed with their neighbours in it.
        numbers: int64 [n], as which samples of the dataset draws are made; None where these are their own.
    """

    def __init__(self, loader: Loader, numbers: NDArray[np.int64] | None = None) -> None:
        self._setup = loader._setup
        if numbers is not None:
            self._setup = replace(self._setup, fetcher=_Renumbered.of(loader, numbers))
        # A few samples, of a fetcher that may be ours alone: they are made here.
        options = replace(self._setup.options, workers=None)
        self._production = Production(replace(self._setup, options=options), loader.steps)

    @property
    def setup(self) -> Setup:
        """What the loader is made of."""
        return self._setup

    def draw(self, indices: Sequence[int], epoch: int) -> Drawn:
        """Make samples as they are in an epoch.

        Args:
            indices: Places in the dataset, each once.
            epoch: At least 0.

        Raises:
            BadSampleError: One of them cannot be read or decoded.
        """
        fetcher = self._setup.fetcher
        variant = fetcher.variants.at(epoch)
        group = fetcher.variants.views[variant].group
        share = np.array([one[0] for one in positions_of(fetcher.order, epoch, indices)], np.int64)
        positions, rows = whole_groups(share, group, len(fetcher.order))
        valid = np.ones(len(share), bool)
        plan = Plan(epoch, 0, positions, rows, valid, 0, 0, variant)
        producer = self._production.start(len(positions))
        try:
            producer.submit(plan)
            finished, images = producer.take()
            _require_sound(finished)
            batch = assemble(finished, images, self._setup)
        finally:
            self._production.stop(producer)
        views = fetcher.variants.views[variant]
        return Drawn(epoch, _on_cpu(batch), views, finished.draws, rows, finished.keys)


def _require_sound(finished: Finished) -> None:
    """Raise BadSampleError for the first sample that is asked for and is bad, substitutes notwithstanding."""
    for row in finished.plan.rows.tolist():
        for record in finished.records[row]:
            if not record.kept:
                raise BadSampleError(f"{record.key}: {record.reason}")


@dataclass(frozen=True, slots=True)
class _Renumbered(Fetcher):
    """Draws for samples of a selection as for those of the whole dataset."""

    numbers: NDArray[np.int64] | None = None

    @classmethod
    def of(cls, loader: Loader, numbers: NDArray[np.int64]) -> "_Renumbered":
        fetcher = loader._setup.fetcher
        own: dict[str, Any] = {
            one.name: getattr(fetcher, one.name) for one in fields(fetcher) if one.init
        }
        return cls(**own, numbers=numbers)

    def identities(
        self, indices: NDArray[np.int64], repeats: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The samples' places in the whole dataset."""
        del repeats  # each comes once
        assert self.numbers is not None
        return self.numbers[indices]


def _on_cpu(batch: Batch) -> Batch:
    def moved(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.cpu()
        if isinstance(value, list):
            return [moved(one) for one in value]
        return value

    values = {one.name: getattr(batch, one.name) for one in fields(batch)}
    values["views"] = tuple(moved(view) for view in batch.views)
    values["fields"] = {name: moved(value) for name, value in batch.fields.items()}
    return Batch(**{name: moved(value) for name, value in values.items()})
