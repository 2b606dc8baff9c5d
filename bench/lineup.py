"""Who takes part in a comparison."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from bench.baselines import (
    Baseline,
    Kornia,
    OpencvAlbumentations,
    TorchvisionPil,
    TorchvisionTensor,
)
from bench.ceiling import DecodeOnly
from bench.contestant import Contestant, Footing, Kind
from bench.dali_baseline import DaliPipeline, Decode
from bench.ours import DECODERS, ENGINES, Decoder, Engine, OurLoader, row_name
from bench.torch_loader import TorchLoader


@dataclass(frozen=True)
class Entry:
    """A contestant that has not been built yet: building one can already show that it cannot."""

    name: str
    kind: Kind
    enter: Callable[[Footing], Contestant]


def lineup() -> list[Entry]:
    """Everyone there is. Those that fork workers come first, before any thread has been started."""
    on_torch = (TorchvisionPil, TorchvisionTensor, OpencvAlbumentations, Kornia)
    return [
        *(_on_torch(baseline) for baseline in on_torch),
        _on_dali("dali-cpu", "cpu"),
        *([_on_dali("dali-gpu", "mixed")] if torch.cuda.is_available() else []),
        *(_ours(decoder, engine) for decoder in DECODERS for engine in ENGINES),
        Entry("decode-only", "ceiling", DecodeOnly),
    ]


def _on_torch(baseline: type[Baseline]) -> Entry:
    def enter(footing: Footing) -> Contestant:
        return TorchLoader(baseline(footing.recipe), footing)

    return Entry(baseline.name, "baseline", enter)


def _on_dali(name: str, decode: Decode) -> Entry:
    def enter(footing: Footing) -> Contestant:
        return DaliPipeline(footing, decode=decode)

    return Entry(name, "baseline", enter)


def _ours(decoder: Decoder, engine: Engine) -> Entry:
    def enter(footing: Footing) -> Contestant:
        return OurLoader(footing, decoder, engine)

    return Entry(row_name(decoder, engine), "engine", enter)
