"""Every pipeline of ours beside its baselines: interleaved, repeated, on the same footing."""

from contextlib import ExitStack
from dataclasses import dataclass
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.arguments import dtype_from
from bench.contestant import Footing
from bench.errors import BenchError
from bench.images import Images, collect
from bench.lineup import Entry, lineup
from bench.machine import num_cores
from bench.race import Progress, opened, race
from bench.result import Comparison
from dali_pipes.choose import choose
from gpu_aug import Recipe
from readers import Dataset

_DTYPES = ("bfloat16", "float32")


@dataclass(frozen=True)
class Settings:
    """How a comparison is run.

    Attributes:
        seconds: Measured time per contestant, over all rounds.
        rounds: Turns of each contestant; every turn gives one run.
        batch_size: Images in a batch.
        device: "cpu", "cuda" or "auto".
        num_threads: Worker threads or processes; None takes the cores.
        seed: Of the shuffling and the draws.
        only: Names of rows; empty means all.
        dtype: Of the batches: "bfloat16", as people train, or "float32".
        peers: Names of baselines; ("all",), ("none",), or empty for those that need no environment of
            their own.
        tiled: Whether our fused rows also run on tiled copies of the images.
    """

    seconds: float = 10.0
    rounds: int = 5
    batch_size: int = 64
    device: str = "auto"
    num_threads: int | None = None
    seed: int = 0
    only: tuple[str, ...] = ()
    dtype: str = "bfloat16"
    peers: tuple[str, ...] = ()
    tiled: bool = False

    def __post_init__(self) -> None:
        for name in ("seconds", "rounds", "batch_size", "num_threads"):
            value = getattr(self, name)
            if value is not None and not 0 < value < inf:  # not a number is neither
                raise BenchError(
                    f"{name} must be greater than 0, got {value}: leave it out to get the default"
                )
        if self.seed < 0:
            raise BenchError(f"seed must be 0 or more, got {self.seed}: leave it out to get 0")
        if self.dtype not in _DTYPES:
            raise BenchError(
                f"dtype must be {' or '.join(_DTYPES)}, got {self.dtype!r}: choose one of them"
            )


def compare(source: str, recipe: Recipe, settings: Settings, progress: Progress) -> Comparison:
    """Run every contestant that this machine can run.

    Args:
        source: Whatever `readers.open_dataset` takes.
        recipe: What each carries out.
        settings: How long, how often, and how big.
        progress: Gets a line of text for every turn.

    Raises:
        readers.ReadersError: There is nothing to read.
        BenchError: Nothing there decodes.
        dali_pipes.LoaderError: There is no such device.
    """
    entries = _entries(settings)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="gpu-aug-")))
        progress("looking at the images")
        images = collect(source, folder)
        footing = Footing(
            images.dataset,
            images.files,
            images.labels,
            recipe,
            settings.batch_size,
            choose(settings.device, "auto", "auto").device,
            settings.num_threads or num_cores(),
            settings.seed,
            dtype_from(settings.dtype),
            _tiled(images, folder, progress) if settings.tiled else None,
        )
        comparison = Comparison(settings=_described(source, settings, footing, images.left_out))
        contestants = []
        for contestant in opened(entries, footing, comparison, progress):
            stack.callback(contestant.close)
            contestants.append(contestant)
        seconds = settings.seconds / settings.rounds
        race(contestants, footing, seconds, settings.rounds, comparison, progress)
    comparison.rows.sort(key=lambda row: row.rate.median, reverse=True)
    return comparison


def _tiled(images: Images, folder: Path, progress: Progress) -> Dataset:
    from bench.tiled import tiled_copy  # loads numba

    return tiled_copy(images, folder, progress)


def _entries(settings: Settings) -> list[Entry]:
    everyone, only = lineup(settings.peers, tiled=settings.tiled), settings.only
    names = [entry.name for entry in everyone]
    unknown = [name for name in only if name not in names]
    if unknown:
        raise BenchError(
            f"a row must be one of {', '.join(names)}, got {', '.join(unknown)}: correct the name"
        )
    wanted = {*only, *(f"{name} (tiled)" for name in only)}
    return [entry for entry in everyone if not only or entry.name in wanted]


def _described(
    source: str, settings: Settings, footing: Footing, left_out: list[str]
) -> dict[str, object]:
    return {
        "data": source,
        "images": len(footing.files),
        "left_out": left_out,
        "recipe": footing.recipe.to_dict(),
        "batch": f"{settings.dtype} {[footing.batch_size, 3, *footing.recipe.fixed_size]}",
        "dtype": settings.dtype,
        "tiled": settings.tiled,
        "device": str(footing.device),
        "threads": footing.num_threads,
        "seconds": settings.seconds,
        "rounds": settings.rounds,
        "seed": settings.seed,
    }
