"""The contestants of a comparison."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from bench.baselines.ceiling import DecodeOnly
from bench.baselines.dali import DaliPipeline, Decode
from bench.baselines.libraries import (
    Baseline,
    Kornia,
    OpencvAlbumentations,
    TorchvisionPil,
    TorchvisionTensor,
    TorchvisionV2,
)
from bench.baselines.peers.catalog import peer_names
from bench.baselines.peers.process import PeerProcess
from bench.baselines.torch_loader import TorchLoader
from bench.baselines.torchvision_cuda import NAME as TORCHVISION_CUDA
from bench.baselines.torchvision_cuda import on_cuda
from bench.compare.contestant import Contestant, Footing, Kind
from bench.compare.ours import OurLoader, row_name
from bench.output.errors import BenchError
from dali_pipes.preview.pairs import DECODERS, ENGINES, Decoder, Engine

ALL, NONE = "all", "none"


@dataclass(frozen=True)
class Entry:
    """A contestant that has not been built yet: building one can already show that it cannot."""

    name: str
    kind: Kind
    enter: Callable[[Footing], Contestant]


def lineup(peers: Sequence[str] = ()) -> list[Entry]:
    """Ours, the ceiling and the baselines. Those that fork workers come first, before any thread has been started.

    Args:
        peers: Names of baselines; ("all",) or ("none",); or empty for those that need no environment
            of their own.

    Raises:
        BenchError: There is no such baseline.
    """
    return [
        *_baselines(peers),
        *(_ours(decoder, engine) for decoder in DECODERS for engine in ENGINES),
        _ours("cpu", "fused", first=True),
        Entry("decode-only", "ceiling", DecodeOnly),
    ]


def _baselines(peers: Sequence[str]) -> list[Entry]:
    on_torch = (TorchvisionPil, TorchvisionV2, TorchvisionTensor, OpencvAlbumentations, Kornia)
    decoding_there = Entry(TORCHVISION_CUDA, "baseline", on_cuda)
    has_gpu = torch.cuda.is_available()
    here = [
        *(_on_torch(baseline) for baseline in on_torch),
        _on_dali("dali-cpu", "cpu"),
        *([_on_dali("dali-gpu", "mixed"), decoding_there] if has_gpu else []),
    ]
    # Who is asked for by name where there is no GPU gets the reason.
    everyone = [*here, *([] if has_gpu else [decoding_there]), *map(_distant, peer_names())]
    if not peers:
        return here
    if tuple(peers) in ((ALL,), (NONE,)):
        return everyone if ALL in peers else []
    names = [entry.name for entry in everyone]
    if unknown := [name for name in peers if name not in names]:
        raise BenchError(
            f"peers must be {ALL}, {NONE} or some of {', '.join(names)}, got {', '.join(unknown)}: "
            "correct the name"
        )
    return [entry for entry in everyone if entry.name in peers]


def _on_torch(baseline: type[Baseline]) -> Entry:
    def enter(footing: Footing) -> Contestant:
        return TorchLoader(baseline(footing.recipe), footing)

    return Entry(baseline.name, "baseline", enter)


def _on_dali(name: str, decode: Decode) -> Entry:
    def enter(footing: Footing) -> Contestant:
        return DaliPipeline(footing, decode=decode)

    return Entry(name, "baseline", enter)


def _distant(name: str) -> Entry:
    def enter(footing: Footing) -> Contestant:
        return PeerProcess(name, footing)

    return Entry(name, "baseline", enter)


def _ours(decoder: Decoder, engine: Engine, *, first: bool = False) -> Entry:
    def enter(footing: Footing) -> Contestant:
        return OurLoader(footing, decoder, engine, first=first)

    return Entry(row_name(decoder, engine, first=first), "engine", enter)
