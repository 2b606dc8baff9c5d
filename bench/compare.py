"""Every pipeline of ours beside its baselines: interleaved, repeated, on the same footing."""

import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from bench.contestant import Contestant, Footing, Kind, Unable
from bench.errors import BenchError
from bench.images import collect
from bench.lineup import Entry, lineup
from bench.machine import num_cores
from bench.result import Absent, Comparison, Row
from bench.timer import Rate, Slice, time_slice
from dali_pipes.choose import choose
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
        only: Names of rows; empty means all.
    """

    seconds: float = 10.0
    rounds: int = 5
    batch_size: int = 64
    device: str = "auto"
    num_threads: int | None = None
    seed: int = 0
    only: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("seconds", "rounds", "batch_size", "num_threads"):
            value = getattr(self, name)
            if value is not None and not 0 < value < inf:  # not a number is neither
                raise BenchError(
                    f"{name} must be greater than 0, got {value}: leave it out to get the default"
                )
        if self.seed < 0:
            raise BenchError(f"seed must be 0 or more, got {self.seed}: leave it out to get 0")


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
        dali_pipes.LoaderError: There is no such device.
    """
    entries = _entries(settings.only)
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
        )
        comparison = Comparison(settings=_described(source, settings, footing, images.left_out))
        contestants = list(_opened(entries, footing, comparison, progress))
        for contestant in contestants:
            stack.callback(contestant.close)
        _race(contestants, footing, settings, comparison, progress)
    comparison.rows.sort(key=lambda row: row.rate.median, reverse=True)
    return comparison


def _opened(
    entries: list[Entry], footing: Footing, comparison: Comparison, progress: Progress
) -> Iterator[Contestant]:
    """Start everyone, let them make a batch and check that it is what all have to make."""
    for entry in entries:
        progress(f"warming up: {entry.name}")
        contestant: Contestant | None = None
        try:
            contestant = entry.enter(footing)
            contestant.open()
            _check(contestant, footing)
            _rest(contestant, None, footing)
        except Exception as error:  # noqa: BLE001 - a peer may raise anything; the result names it
            if contestant is not None:
                contestant.close()
            comparison.absent.append(_absent(entry.name, entry.kind, error))
        else:
            yield contestant


def _check(contestant: Contestant, footing: Footing) -> None:
    batch = contestant.next_batch()
    expected = (footing.batch_size, 3, *footing.recipe.fixed_size)
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
        # Another one begins each round, so that nobody always follows the same neighbour.
        for contestant in running[number:] + running[:number]:
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
                comparison.absent.append(_absent(contestant.name, contestant.kind, error))
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


def _absent(name: str, kind: Kind, error: Exception) -> Absent:
    # A worker's error quotes a whole traceback, of which the last line says what happened.
    lines = str(error).strip().splitlines() or [""]
    text = lines[-1] if "Traceback" in str(error) else " ".join(" ".join(lines).split())[:300]
    if isinstance(error, Unable):
        return Absent(name, kind, text)
    return Absent(
        name, kind, f"{type(error).__name__}: {text}", "".join(traceback.format_exception(error))
    )


def _entries(only: tuple[str, ...]) -> list[Entry]:
    everyone = lineup()
    names = [entry.name for entry in everyone]
    unknown = [name for name in only if name not in names]
    if unknown:
        raise BenchError(
            f"a row must be one of {', '.join(names)}, got {', '.join(unknown)}: correct the name"
        )
    return [entry for entry in everyone if not only or entry.name in only]


def _described(
    source: str, settings: Settings, footing: Footing, left_out: list[str]
) -> dict[str, object]:
    return {
        "data": source,
        "images": len(footing.files),
        "left_out": left_out,
        "recipe": footing.recipe.to_dict(),
        "batch": f"float32 {[footing.batch_size, 3, *footing.recipe.fixed_size]}",
        "device": str(footing.device),
        "threads": footing.num_threads,
        "seconds": settings.seconds,
        "rounds": settings.rounds,
        "seed": settings.seed,
    }
