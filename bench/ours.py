"""Our own loader as a contestant, once for every decoder and engine."""

from collections.abc import Iterator
from typing import Literal

import torch

from bench.contestant import STAGES, Footing, Kind, Share, Unable, share_of
from dali_pipes import Batch, Loader, LoaderError, MissingPackageError, available_decoders
from gpu_aug import EngineError

Decoder = Literal["dali", "cpu"]
Engine = Literal["kornia", "albumentations"]

DECODERS: tuple[Decoder, ...] = ("dali", "cpu")
ENGINES: tuple[Engine, ...] = ("kornia", "albumentations")


def row_name(decoder: str, engine: str) -> str:
    """How a pair is called in tables, pictures and files."""
    return f"gpu-aug/{decoder}+{engine}"


class OurLoader:
    """`dali_pipes.Loader` with one decoder and one engine."""

    kind: Kind = "engine"
    num_ahead = 4  # the loader's prefetch of 2, and those that its stages hold
    num_discard = 6

    def __init__(self, footing: Footing, decoder: Decoder, engine: Engine) -> None:
        self.name = row_name(decoder, engine)
        self.note = "antialiased; the same draws for every engine"
        self._footing = footing
        self._decoder: Decoder = decoder
        self._engine: Engine = engine
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
        self._batches = iter(self._loader)

    def next_batch(self) -> torch.Tensor:
        """Take a batch from the loader."""
        if self._batches is None:
            raise RuntimeError(f"{self.name} is not open")
        return next(self._batches).images

    def share(self) -> Share:
        """What the loader itself measured, over all its threads, since its epoch began."""
        if self._loader is None:
            raise RuntimeError(f"{self.name} is not open")
        return share_of({stage: getattr(self._loader.timings, stage) for stage in STAGES})

    def close(self) -> None:
        """Stop its threads."""
        self._batches = None
        if self._loader is not None:
            self._loader.close()
            self._loader = None


def loader_for(footing: Footing, decoder: Decoder, engine: Engine) -> Loader:
    """Build our loader on the footing that everyone has: float32, planes of colours."""
    return Loader(
        footing.dataset,
        footing.recipe,
        batch_size=footing.batch_size,
        device=footing.device,
        decoder=decoder,
        engine=engine,
        seed=footing.seed,
        dtype=torch.float32,
        channels_last=False,
        num_threads=footing.num_threads,
    )
