"""Our own loader as a contestant: once for every decoder and engine, and in a first epoch."""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from bench.compare.contestant import Footing, Kind, Share, Unable, share_of, stage_seconds
from dali_pipes import (
    BadSampleError,
    Batch,
    Loader,
    LoaderError,
    MissingPackageError,
    available_decoders,
)
from dali_pipes.jpeg.checkpoint_memory import CheckpointMemory
from dali_pipes.jpeg.checkpoints import Known, listed
from dali_pipes.jpeg.finder import FINDER, found_again
from dali_pipes.preview.pairs import Decoder, Engine, pair_name
from gpu_aug import EngineError


def row_name(decoder: str, engine: str, *, first: bool = False) -> str:
    """The name of a row of ours."""
    return pair_name(decoder, engine) + (" (first epoch)" if first else "")


class NewFiles(CheckpointMemory):
    """Keeps what is found of JPEGs and does not find it again, so that each is new each time."""

    def look_up(self, indices: NDArray[np.int64], digests: NDArray[np.uint64]) -> Known:
        """See CheckpointStore."""
        super().look_up(indices, digests)  # takes as long as of known files
        return listed([None] * len(indices))


class OurLoader:
    """`dali_pipes.Loader` with one decoder and one engine.

    All JPEGs are known beforehand, as in a second epoch; or none ever is, as in a first one.
    """

    kind: Kind = "engine"
    num_ahead = 4  # the loader's prefetch of 2, and those that its stages hold
    num_discard = 6

    def __init__(
        self,
        footing: Footing,
        decoder: Decoder,
        engine: Engine,
        *,
        first: bool = False,
    ) -> None:
        self.name = row_name(decoder, engine, first=first)
        self.note = "antialiased, channels_last; the same draws for every engine"
        if decoder == "cpu" and not footing.num_frames:
            self.note += "; no JPEG was met before" if first else "; all JPEGs were met before"
        self._footing = footing
        self._decoder: Decoder = decoder
        self._engine: Engine = engine
        self._first = first
        self._loader: Loader | None = None
        self._batches: Iterator[Batch] | None = None

    def open(self) -> None:
        """Build the loader and begin its epoch."""
        reason = available_decoders()[self._decoder]
        if reason:
            raise Unable(reason)
        try:
            self._loader = loader_for(self._footing, self._decoder, self._engine)
        except (EngineError, LoaderError, MissingPackageError) as error:
            raise Unable(str(error)) from error
        if self._decoder == "cpu" and not self._footing.num_frames:
            production = self._loader._loops.production
            production.checkpoints = NewFiles() if self._first else self._known()
        self._batches = iter(self._loader)

    def _known(self) -> CheckpointMemory:
        """The checkpoints of all files."""
        known, count = CheckpointMemory(), len(self._footing.files)
        for sample in self._footing.dataset.fetch(range(count)):
            data = getattr(sample, "image", b"")
            digest = FINDER.digest(data)
            known.keep_all([(0, digest, found_again(FINDER.find(data)))])
        return known

    def next_batch(self) -> torch.Tensor:
        """Take a batch from the loader.

        Raises:
            Unable: A sample is bad.
        """
        if self._batches is None:
            raise RuntimeError(f"{self.name} is not open")
        try:
            return next(self._batches).images
        except BadSampleError as error:
            assert self._loader is not None
            bad = self._loader.bad_samples[-1]
            key = bad.key.rpartition("#")[0] if self._footing.num_frames else bad.key
            raise Unable(f"{key} is bad ({bad.reason}): take it out of the data") from error

    def share(self) -> Share:
        """Shares of time as measured by the loader, over all its threads, since its epoch began."""
        if self._loader is None:
            raise RuntimeError(f"{self.name} is not open")
        return share_of(stage_seconds(self._loader.stats()))

    def close(self) -> None:
        """Stop its threads."""
        self._batches = None
        if self._loader is not None:
            self._loader.close()
            self._loader = None


def loader_for(footing: Footing, decoder: Decoder, engine: Engine) -> Loader:
    """Build our loader with the settings that all contestants share."""
    return Loader(
        footing.dataset,
        footing.recipe,
        batch_size=footing.batch_size,
        device=footing.device,
        decoder=decoder,
        engine=engine,
        seed=footing.seed,
        dtype=footing.dtype,
        num_threads=footing.num_threads,
    )
