"""Each of our pipelines against its baselines: interleaved, repeated, with equal settings."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.cli.arguments import dtype_from
from bench.compare.contestant import Footing
from bench.compare.images import collect
from bench.compare.lineup import Entry, lineup
from bench.compare.race import Progress, opened, race
from bench.compare.result import Comparison
from bench.output.errors import BenchError
from bench.video.clips import ClipSettings
from bench.video.lineup import clip_lineup
from bench.video.plan import ClipFooting, make_plan
from dali_pipes.choose import choose
from gpu_aug import Recipe
from gpu_aug.expected_recipe import require_recipe
from readers.cores import usable_cores

_DTYPES = ("bfloat16", "float32")
_START_SECONDS, _REST_SECONDS = 15.0, 4.0  # of a contestant; before each turn and after it


@dataclass(frozen=True)
class Settings:
    """Settings of a comparison.

    Attributes:
        seconds: Measured time per contestant, over all rounds.
        rounds: Turns of each contestant; every turn gives one run.
        batch_size: Images, or clips, in a batch.
        device: "cpu", "cuda" or "auto".
        num_threads: Worker threads or processes; None takes the cores.
        seed: Seed of the shuffling and the draws.
        only: Names of rows; empty means all.
        dtype: Data type of the batches: "bfloat16", as people train, or "float32".
        peers: Names of baselines; ("all",), ("none",), or empty for those that need no environment of
            their own.
        clips: How clips are taken out of the data, where these are videos; None for images.
        how: Keyword arguments of `readers.open_dataset`.
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
    clips: ClipSettings | None = None
    how: Mapping[str, Any] = field(default_factory=dict)

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


def expected_minutes(settings: Settings) -> float:
    """About how long a comparison takes, where every contestant can take part; more where data are large."""
    start = _START_SECONDS + settings.rounds * _REST_SECONDS
    return len(_entries(settings)) * (settings.seconds + start) / 60


def num_contestants(settings: Settings) -> int:
    """How many pipelines a comparison has, where every one can take part."""
    return len(_entries(settings))


def compare(source: str, recipe: Recipe, settings: Settings, progress: Progress) -> Comparison:
    """Run every contestant that this machine can run.

    Args:
        source: A source as for `readers.open_dataset`.
        recipe: What each carries out.
        settings: How long, how often, and how big.
        progress: Gets a line of text for every turn.

    Raises:
        readers.ReadersError: There is nothing to read.
        BenchError: Nothing there decodes, or a setting is not for these data.
        dali_pipes.LoaderError: There is no such device.
    """
    require_recipe(recipe, Recipe)
    entries = _entries(settings)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="gpu-aug-")))
        footing, left_out = _footing(source, recipe, settings, folder, progress)
        comparison = Comparison(settings=_described(source, settings, footing, left_out))
        contestants = []
        for contestant in opened(entries, footing, comparison, progress):
            stack.callback(contestant.close)
            contestants.append(contestant)
        seconds = settings.seconds / settings.rounds
        race(contestants, footing, seconds, settings.rounds, comparison, progress)
    comparison.rows.sort(key=lambda row: row.rate.median, reverse=True)
    return comparison


def _footing(
    source: str, recipe: Recipe, settings: Settings, folder: Path, progress: Progress
) -> tuple[Footing, list[str]]:
    """The settings that all contestants share, and the images left out."""
    alike: dict[str, Any] = {
        "recipe": recipe,
        "batch_size": settings.batch_size,
        "device": choose(settings.device, "auto", "auto").device,
        "num_threads": settings.num_threads or usable_cores(),
        "seed": settings.seed,
        "dtype": dtype_from(settings.dtype),
    }
    if settings.clips is not None:
        progress("looking at the videos")
        plan, left_out = make_plan(source, settings.clips, settings.seed, folder, how=settings.how)
        return ClipFooting(plan.clips, plan.files, plan.labels, plan=plan, **alike), left_out
    progress("looking at the images")
    images = collect(source, folder, how=settings.how)
    return Footing(images.dataset, images.files, images.labels, **alike), images.left_out


def _entries(settings: Settings) -> list[Entry]:
    everyone = lineup(settings.peers) if settings.clips is None else _clip_entries(settings)
    only = settings.only
    names = [entry.name for entry in everyone]
    unknown = [name for name in only if name not in names]
    if unknown:
        raise BenchError(
            f"a row must be one of {', '.join(names)}, got {', '.join(unknown)}: correct the name"
        )
    wanted = {*only, *(f"{name} (first epoch)" for name in only)}
    return [entry for entry in everyone if not only or entry.name in wanted]


def _clip_entries(settings: Settings) -> list[Entry]:
    """Raise BenchError where something was asked for that is for images."""
    if settings.peers:
        raise BenchError("--peers is for images, and these are videos: leave it out")
    return clip_lineup()


def _described(
    source: str, settings: Settings, footing: Footing, left_out: list[str]
) -> dict[str, object]:
    clips = settings.clips
    taken = {"images": len(footing.files)}
    if clips is not None:
        taken = {"videos": len(footing.files), "num_frames": clips.num_frames, **clips.step}
    return {
        "data": source,
        **taken,
        "left_out": left_out,
        "recipe": footing.recipe.to_dict(),
        "batch": f"{settings.dtype} {list(footing.shape)}",
        "dtype": settings.dtype,
        "device": str(footing.device),
        "threads": footing.num_threads,
        "seconds": settings.seconds,
        "rounds": settings.rounds,
        "seed": settings.seed,
    }
