"""A loader's parts on samples that lie in memory, so that each can be run on its own."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.output.errors import BenchError
from dali_pipes import Loader
from dali_pipes.decode.dali.user_pipeline import DaliDecoder
from dali_pipes.decode.threaded import CpuDecoder
from dali_pipes.jpeg.checkpoint_memory import CheckpointMemory
from dali_pipes.options import Setup
from dali_pipes.pipeline.augment import Engines
from dali_pipes.pipeline.fetch import Fetcher
from dali_pipes.pipeline.stages import Fetched
from dali_pipes.pipeline.threads import Render, Workers
from dali_pipes.streams.steps import AnySteps
from dali_pipes.video.source import find_clips
from readers import BadSample, Dataset, Sample

_NOT_OURS = (
    "shuffle", "shuffle_window", "ledger", "audit", "rank", "world_size", "last_batch", "on_bad_sample",
    "max_bad_samples", "helper_process", "workers", "metrics", "heartbeat", "buckets", "sizes",
)  # fmt: skip
"""Arguments of a loader that say which samples come when, and who is told of it."""


class Held:
    """Samples in memory as a dataset; all else that a loader asks for is that of the dataset they are from.

    Args:
        dataset: Where they are from.
        samples: The samples.
    """

    def __init__(self, dataset: Dataset, samples: Sequence[Sample]) -> None:
        self._dataset = dataset
        self.samples = [replace(sample, index=at) for at, sample in enumerate(samples)]

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def fingerprint(self) -> str:
        """That of the dataset."""
        return self._dataset.fingerprint

    @property
    def class_names(self) -> tuple[str, ...]:
        """Those of the dataset."""
        return self._dataset.class_names

    def __getattr__(self, name: str) -> Any:
        if name not in ("label_shape", "field_types"):
            raise AttributeError(name)
        return getattr(self._dataset, name)

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Return samples."""
        return [self.samples[int(index)] for index in indices]


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a loader, and the steps of an epoch of the samples that lie in memory.

    Attributes:
        setup: What the loader is made of.
        engines: The engines of the first recipe.
        steps: The steps.
        batches: The samples of each step, with their draws.
        fast: Whether JPEGs may be decoded at a smaller size.
        checkpoints: Those of the samples, once they were decoded.
    """

    setup: Setup
    engines: Engines
    steps: AnySteps
    batches: tuple[Fetched, ...]
    fast: bool
    checkpoints: CheckpointMemory = field(default_factory=CheckpointMemory)

    @property
    def fetcher(self) -> Fetcher:
        """The first stage."""
        return self.setup.fetcher

    def render_of(self, rows: Fetched) -> Render:
        """What renders the canvases of rows."""
        workers = Workers(self.fetcher, 1)
        decoder = CpuDecoder(
            self.fetcher, _spawn_nothing, 1, workers, fast=self.fast, store=self.checkpoints
        )
        return decoder._render_of(rows)

    def chunks(self, size: int) -> Iterator[Fetched]:
        """All rows, in parts of at most so many."""
        for batch in self.batches:
            for start in range(0, len(batch), size):
                yield batch.rows(start, min(start + size, len(batch)))


def make_parts(
    dataset: Dataset, samples: Sequence[Sample], recipe: Any, settings: Mapping[str, Any]
) -> Parts:
    """Make the parts of a loader for samples in memory.

    Args:
        dataset: Where they are from.
        samples: At least one.
        recipe: As for Loader.
        settings: Arguments of Loader; those that only say which samples come when are passed over.

    Raises:
        BenchError: The samples are clips or a stream, or the user's own DALI pipeline decodes.
        dali_pipes.LoaderError: A setting that cannot work.
    """
    require_images(dataset)
    if isinstance(settings.get("decoder"), DaliDecoder):
        raise BenchError(
            'a DALI pipeline of your own cannot be run stage by stage: give decoder="dali" or "cpu", or time the pipeline '
            "with DALI's tools"
        )
    kept = {name: value for name, value in settings.items() if name not in _NOT_OURS}
    kept["batch_size"] = min(int(kept["batch_size"]), len(samples))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a loader of few samples warns of what is meant here
        loader = Loader(
            Held(dataset, samples),
            recipe,
            shuffle="none",
            last_batch="partial",
            on_bad_sample="skip",
            max_bad_samples=len(samples),
            rank=0,
            world_size=1,
            **kept,
        )
    setup = loader._setup
    plans = loader.steps.plans(0, 0)
    batches = tuple(setup.fetcher.fetch(plan) for plan in plans)
    engines = Engines(setup.variants[batches[0].plan.variant], setup.fetcher.recorder)
    return Parts(setup, engines, loader.steps, batches, setup.options.fast)


def require_images(dataset: Any) -> None:
    """Refuse what cannot be measured stage by stage.

    Raises:
        BenchError: It is made of clips, or read forward only.
    """
    if not hasattr(dataset, "fetch"):
        raise BenchError(
            "a stream is read forward only, so its stages cannot be measured on a sample of its rows: give shards or "
            "files that can be read at random"
        )
    if find_clips(dataset) is not None:
        raise BenchError(
            "the stages of clips cannot be measured one by one: measure them whole with gpu-aug bench compare"
        )


def _spawn_nothing(*_: Any) -> Any:
    """Nothing is spawned: rows are rendered by who measures."""
