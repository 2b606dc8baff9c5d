"""The contestants of a comparison on videos."""

from collections.abc import Callable

from bench.compare.contestant import Contestant, Footing, Handy, Kind
from bench.compare.lineup import Entry
from bench.compare.ours import OurLoader
from bench.video.ceiling import LibavcodecOnly, TorchcodecOnly
from bench.video.check import check_frames
from bench.video.dali_reader import DaliVideoReader
from bench.video.libraries import (
    ClipReader,
    DecordTorchvision,
    PyavAlbumentations,
    TorchcodecTorchvision,
)
from bench.video.plan import ClipFooting
from bench.video.workers import ClipProcesses, ClipThreads
from dali_pipes.preview.pairs import DECODERS, Decoder, pair_name

Enter = Callable[[ClipFooting], Handy]

_LIBRARIES: tuple[type[ClipReader], ...] = (
    TorchcodecTorchvision,
    PyavAlbumentations,
    DecordTorchvision,
)


def clip_lineup() -> list[Entry]:
    """The baselines, ours, and the ceilings.

    Those that fork workers come first, before any thread has been started. Each shows some frames before it
    takes part; see `bench.video.check`.
    """
    return [
        *map(_in_processes, _LIBRARIES),
        *map(_in_threads, _LIBRARIES),
        _entry("dali reader", "baseline", DaliVideoReader),
        *(_ours(decoder) for decoder in DECODERS),
        _entry(LibavcodecOnly.name, "ceiling", LibavcodecOnly),
        _entry(TorchcodecOnly.name, "ceiling", TorchcodecOnly),
    ]


def _in_processes(reader: type[ClipReader]) -> Entry:
    def enter(footing: ClipFooting) -> Handy:
        return ClipProcesses(reader(footing.recipe), footing)

    return _entry(f"{reader.name} ({ClipProcesses.where})", "baseline", enter)


def _in_threads(reader: type[ClipReader]) -> Entry:
    def enter(footing: ClipFooting) -> Handy:
        return ClipThreads(reader(footing.recipe), footing)

    return _entry(f"{reader.name} ({ClipThreads.where})", "baseline", enter)


def _ours(decoder: Decoder) -> Entry:
    name = pair_name(decoder, "fused")
    return _entry(name, "engine", lambda footing: OurLoader(footing, decoder, "fused"))


def _entry(name: str, kind: Kind, enter: Enter) -> Entry:
    def checked(footing: Footing) -> Contestant:
        assert isinstance(footing, ClipFooting)
        check_frames(enter, footing)
        return enter(footing)

    return Entry(name, kind, checked)
