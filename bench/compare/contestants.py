"""List the contestants of a comparison, one per line."""

from collections.abc import Iterator, Sequence

from bench.baselines.peers.catalog import PEERS, is_ready
from bench.compare.contract import Contestant as Contestant
from bench.output.errors import BenchError
from dali_pipes.preview.chosen_batches import DECODERS, ENGINES, pair_name

ALL, NONE = "all", "none"
FIRST_EPOCH = " (first epoch)"


_IMAGES = "bench.baselines.images"
_VIDEOS = "bench.baselines.videos"
_PEERS = "bench.baselines.peers"


def _ours(decoder: str, engine: str, **options: object) -> Contestant:
    name = pair_name(decoder, engine) + (FIRST_EPOCH if options else "")
    chosen = {"decoder": decoder, "engine": engine, **options}
    return Contestant(name, "engine", "bench.compare.ours:start", chosen)


def _of_clips(name: str, library: str, peer: str = "") -> Iterator[Contestant]:
    for where in ("processes", "threads"):
        start = f"{_VIDEOS}:{library}.in_{where}"
        yield Contestant(f"{name} ({where})", "baseline", start, peer=peer)


IMAGES: tuple[Contestant, ...] = (
    Contestant("torchvision-pil", "baseline", f"{_IMAGES}:TorchvisionPil.in_processes"),
    Contestant("torchvision-v2", "baseline", f"{_IMAGES}:TorchvisionV2.in_processes"),
    Contestant("torchvision-tensor", "baseline", f"{_IMAGES}:TorchvisionTensor.in_processes"),
    Contestant("opencv-albumentations", "baseline", f"{_IMAGES}:OpencvAlbumentations.in_processes"),
    Contestant("kornia", "baseline", f"{_IMAGES}:Kornia.in_processes"),
    Contestant("dali-cpu", "baseline", "bench.baselines.dali:start", {"decode": "cpu"}),
    Contestant(
        "dali-gpu", "baseline", "bench.baselines.dali:start", {"decode": "mixed"}, needs_gpu=True
    ),
    Contestant(
        "torchvision-cuda", "baseline", "bench.baselines.torchvision_cuda:start", needs_gpu=True
    ),
    *(
        Contestant(name, "baseline", f"{_PEERS}.{name.replace('-', '_')}.pipeline:start", peer=name)
        for name in ("grain", "litdata", "mosaic-streaming", "spdl", "webdataset")
    ),
    *(_ours(decoder, engine) for decoder in DECODERS for engine in ENGINES),
    _ours("cpu", "fused", is_first_epoch=True),
    Contestant("decode-only", "ceiling", "bench.baselines.ceiling:start"),
)

VIDEOS: tuple[Contestant, ...] = (
    *_of_clips("pyav+torchvision", "PyavTorchvision"),
    *_of_clips("opencv+albumentations", "OpencvAlbumentations"),
    *_of_clips("decord+torchvision", "DecordTorchvision", "decord2"),
    *_of_clips("torchcodec+torchvision", "TorchcodecTorchvision"),
    Contestant("dali reader", "baseline", "bench.baselines.dali:start_videos"),
    *(_ours(decoder, "fused") for decoder in DECODERS),
    Contestant("libavcodec alone", "ceiling", "bench.baselines.ceiling:libavcodec"),
    Contestant("torchcodec decode only", "ceiling", "bench.baselines.ceiling:torchcodec"),
)

WINDOWS: tuple[Contestant, ...] = (
    *(
        Contestant(
            f"gpu-aug {dtype}", "engine", "bench.compare.ours:start_windows", {"dtype": dtype}
        )
        for dtype in ("uint8", "bfloat16", "float32")
    ),
    *(
        Contestant(
            f"lerobot {backend}",
            "baseline",
            f"{_PEERS}.lerobot.pipeline:start",
            {"backend": backend},
            peer="lerobot",
        )
        for backend in ("torchcodec", "pyav")
    ),
    Contestant("decoding alone", "ceiling", "bench.baselines.ceiling:windows"),
)


def choose(
    everyone: Sequence[Contestant], *, on_gpu: bool, peers: Sequence[str], only: Sequence[str]
) -> list[Contestant]:
    """Return the contestants that take part.

    Args:
        everyone: All contestants: IMAGES, VIDEOS or WINDOWS.
        on_gpu: Whether batches are made for a CUDA device.
        peers: Names of baselines or keys of `PEERS`; ("all",) or ("none",); empty for those whose packages are installed.
        only: Names of the contestants to measure; empty for all.

    Raises:
        BenchError: A name is unknown.
    """
    names = [one.name for one in everyone]
    baselines = [one for one in everyone if one.kind == "baseline"]
    known = {name for one in baselines for name in (one.name, one.peer) if name}
    if unknown := [name for name in only if name not in names]:
        raise BenchError(
            f"a row must be one of {', '.join(names)}, got {', '.join(unknown)}: correct the name"
        )
    if tuple(peers) not in ((ALL,), (NONE,)) and (unknown := [*{*peers} - known]):
        raise BenchError(
            f"peers must be {ALL}, {NONE} or some of {', '.join(sorted(known))}, got "
            f"{', '.join(sorted(unknown))}: correct the name"
        )
    asked = {*peers, *only}

    def takes_part(one: Contestant) -> bool:
        if only and one.name.removesuffix(FIRST_EPOCH) not in only and one.name not in only:
            return False
        if one.kind != "baseline" or asked & {one.name, one.peer}:
            return True
        if not on_gpu and one.needs_gpu:
            return False
        return tuple(peers) == (ALL,) or (not peers and is_ready(one.peer))

    return [one for one in everyone if takes_part(one)]


def missing_peers(contestants: Sequence[Contestant]) -> list[str]:
    """Return the keys of `PEERS` that some contestants need and that are not installed, without duplicates."""
    needed = {one.peer for one in contestants}
    return [name for name in PEERS if name in needed and not is_ready(name)]
