"""Every pipeline of ours beside its baselines: interleaved, repeated, on the same footing."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from bench.contestant import Contestant, Footing, Kind, Share, Unable
from bench.errors import BenchError
from bench.images import collect
from bench.lineup import lineup
from bench.machine import num_cores
from bench.timer import Rate, Slice, time_slice
from gpu_aug import Recipe

_REST_SECONDS_MAX = 3.0


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
    """

    seconds: float = 10.0
    rounds: int = 5
    batch_size: int = 64
    device: str = "auto"
    num_threads: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("seconds", "rounds", "batch_size"):
            if getattr(self, name) <= 0:
                raise BenchError(
                    f"{name} must be greater than 0, got {getattr(self, name)}: "
                    f"leave it out to get {getattr(Settings, name)}"
                )


@dataclass(frozen=True)
class Row:
    """One contestant's result."""

    name: str
    kind: Kind
    rate: Rate
    share: Share
    note: str

    def to_dict(self) -> dict[str, object]:
        """As it stands in the JSON."""
        return {
            "name": self.name,
            "kind": self.kind,
            "images_per_second": self.rate.to_dict(),
            "share": self.share,
            "note": self.note,
        }


@dataclass(frozen=True)
class Absent:
    """A contestant without a result, and the reason."""

    name: str
    kind: Kind
    reason: str


@dataclass
class Comparison:
    """What came out.

    Attributes:
        rows: Fastest first.
        absent: Who took no part, or dropped out.
        settings: What was the same for all.
    """

    rows: list[Row] = field(default_factory=list)
    absent: list[Absent] = field(default_factory=list)
    settings: dict[str, object] = field(default_factory=dict)


Progress = Callable[[str], None]


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
    """
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
            _device(settings.device),
            settings.num_threads or num_cores(),
            settings.seed,
        )
        comparison = Comparison(settings=_described(source, settings, footing, images.left_out))
        contestants = list(_opened(footing, comparison, progress))
        for contestant in contestants:
            stack.callback(contestant.close)
        _race(contestants, footing, settings, comparison, progress)
    comparison.rows.sort(key=lambda row: row.rate.median, reverse=True)
    return comparison


def _opened(footing: Footing, comparison: Comparison, progress: Progress) -> Iterator[Contestant]:
    """Start everyone, let them make a batch and check that it is what all have to make."""
    for entry in lineup():
        progress(f"warming up {entry.name}")
        contestant: Contestant | None = None
        try:
            contestant = entry.enter(footing)
            contestant.open()
            _check(contestant, footing)
            _rest(contestant, None, footing)
        except Exception as error:  # noqa: BLE001 - a peer may raise anything; the result names it
            if contestant is not None:
                contestant.close()
            comparison.absent.append(Absent(entry.name, entry.kind, _reason(error)))
        else:
            yield contestant


def _check(contestant: Contestant, footing: Footing) -> None:
    for _ in range(contestant.num_discard):
        batch = contestant.next_batch()
    expected = (footing.batch_size, 3, *footing.recipe.size)
    if contestant.kind == "ceiling":
        return
    if tuple(batch.shape) != expected or batch.dtype != torch.float32:
        raise Unable(f"made {batch.dtype} {list(batch.shape)}, not float32 {list(expected)}")
    if batch.device != footing.device:
        raise Unable(f"left the batch on {batch.device}, not on {footing.device}")


def _race(
    contestants: list[Contestant],
    footing: Footing,
    settings: Settings,
    comparison: Comparison,
    progress: Progress,
) -> None:
    """Give everyone a turn in every round, so that a noisy minute hits all alike."""
    slices: dict[str, list[Slice]] = {contestant.name: [] for contestant in contestants}
    running = list(contestants)
    for number in range(settings.rounds):
        for contestant in list(running):
            progress(f"round {number + 1} of {settings.rounds}: {contestant.name}")
            try:
                turn = time_slice(
                    contestant.next_batch,
                    seconds=settings.seconds / settings.rounds,
                    discard=contestant.num_discard,
                    finish=lambda: synchronise(footing.device),
                )
            except Exception as error:  # noqa: BLE001 - as above
                running.remove(contestant)
                comparison.absent.append(Absent(contestant.name, contestant.kind, _reason(error)))
                continue
            slices[contestant.name].append(turn)
            _rest(contestant, turn, footing)
    for contestant in running:
        progress(f"where the time goes: {contestant.name}")
        comparison.rows.append(_row(contestant, slices[contestant.name]))


def _row(contestant: Contestant, turns: list[Slice]) -> Row:
    wait = sum(turn.wait_seconds for turn in turns) / sum(turn.seconds for turn in turns)
    return Row(
        contestant.name,
        contestant.kind,
        Rate(tuple(turn.images_per_second for turn in turns)),
        {**contestant.share(), "wait": round(wait, 3)},
        contestant.note,
    )


def _rest(contestant: Contestant, turn: Slice | None, footing: Footing) -> None:
    """Wait until a contestant has filled its queue and no longer takes the cores from the next one."""
    rate = turn.images_per_second if turn else 300.0
    time.sleep(min(_REST_SECONDS_MAX, contestant.num_ahead * footing.batch_size / max(rate, 1.0)))


def synchronise(device: torch.device) -> None:
    """Wait until the device has done everything."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())[:300]
    return text if isinstance(error, Unable) else f"{type(error).__name__}: {text}"


def _device(name: str) -> torch.device:
    """The device by its full name, so that it equals that of a tensor."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise BenchError(f"device must be cpu or auto on a machine without CUDA, got {name}")
    return torch.device("cuda", device.index or 0) if device.type == "cuda" else device


def _described(
    source: str, settings: Settings, footing: Footing, left_out: list[str]
) -> dict[str, object]:
    return {
        "data": source,
        "images": len(footing.files),
        "left_out": left_out,
        "recipe": footing.recipe.to_dict(),
        "batch": f"float32 {[footing.batch_size, 3, *footing.recipe.size]}",
        "device": str(footing.device),
        "threads": footing.num_threads,
        "seconds": settings.seconds,
        "rounds": settings.rounds,
        "seed": settings.seed,
    }
