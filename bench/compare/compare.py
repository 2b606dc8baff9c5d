"""Compare each of our pipelines with baselines: they run alternately in several rounds, with equal settings."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from bench.compare.clips import ClipSettings, make_plan
from bench.compare.contestants import (
    IMAGES,
    VIDEOS,
    WINDOWS,
    Contestant,
    choose,
    missing_peers,
)
from bench.compare.images import collect
from bench.compare.process import ContestantProcess
from bench.compare.result import Absent, Comparison, Row
from bench.compare.task import Task, Unable
from bench.compare.windows import WindowSettings, WindowTask, make_window_task
from bench.output.arguments import dtype_from
from bench.output.errors import BenchError, require_above_zero
from bench.timing import measure_in_turns
from dali_pipes.arguments.choose import choose as choose_settings
from gpu_aug import Recipe
from gpu_aug.expected_recipe import require_recipe
from readers.cores import usable_cores

Progress = Callable[[str], None]

_DTYPES = ("bfloat16", "float32")
_REST_SECONDS_MAX = 3.0
_FIRST_RATE = 300.0  # items per second, assumed until the first measurement


@dataclass(frozen=True)
class Settings:
    """Settings of a comparison.

    Attributes:
        seconds: Measured time per contestant in seconds, summed over all rounds.
        rounds: Count of rounds; in each, every contestant is measured once.
        batch_size: Images, clips or windows in a batch.
        device: "cpu", "cuda" or "auto".
        num_threads: Count of worker threads or processes; None uses the count of cores.
        seed: Seed of the shuffling and the draws.
        only: Names of the contestants to measure; empty for all.
        dtype: Data type of the batches: "bfloat16", as in typical training, or "float32".
        peers: Names of baselines; ("all",), ("none",), or empty for those whose packages are
            installed.
        clips: How clips are taken from videos; None for other data.
        windows: How windows are taken from a LeRobot dataset; None for other data.
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
    windows: WindowSettings | None = None
    how: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_above_zero(
            seconds=self.seconds,
            rounds=self.rounds,
            batch_size=self.batch_size,
            num_threads=self.num_threads,
        )
        if self.seed < 0:
            raise BenchError(f"seed must be 0 or more, got {self.seed}: leave it out to get 0")
        if self.dtype not in _DTYPES:
            raise BenchError(
                f"dtype must be {' or '.join(_DTYPES)}, got {self.dtype!r}: choose one of them"
            )


def contestants_of(settings: Settings) -> list[Contestant]:
    """Return the contestants that take part.

    Raises:
        BenchError: The settings contain an unknown name.
        dali_pipes.LoaderError: The device does not exist.
    """
    return choose(
        _everyone(settings),
        on_gpu=_device(settings).type == "cuda",
        peers=settings.peers,
        only=settings.only,
    )


def compare(source: str, recipe: Recipe, settings: Settings, progress: Progress) -> Comparison:
    """Run every contestant that can run on this machine.

    Args:
        source: A source as for `readers.open_dataset`.
        recipe: The recipe that each contestant runs.
        settings: Durations, repetitions and sizes.
        progress: Called with a line of text before each measurement of a contestant.

    Raises:
        readers.ReadersError: The source cannot be opened or has no samples.
        BenchError: Nothing in the data decodes, or a setting does not apply to these data.
        dali_pipes.LoaderError: The device does not exist.
    """
    require_recipe(recipe, Recipe)
    contestants = contestants_of(settings)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="gpu-aug-")))
        task, left_out = _task(source, recipe, settings, folder, progress)
        comparison = Comparison(settings=_describe(source, settings, task, left_out))
        if not (settings.peers or settings.only):
            comparison.missing_peers = missing_peers(_everyone(settings))
        opened = _open_contestants(contestants, task, comparison, stack, progress)
        running = {process.name: process for process in opened}
        measured = measure_in_turns(
            {name: process.turn for name, process in running.items()},
            seconds=settings.seconds / settings.rounds,
            rounds=settings.rounds,
            progress=progress,
            after_turn=lambda name, turn: rest(running[name], task, turn.rate),
            on_failure=lambda name, error: _drop(running[name], error, comparison),
        )
    for name, turns in measured.items():
        ran = running[name]
        comparison.rows.append(Row(name, ran.kind, turns, ran.note, task.num_frames))
    comparison.rows.sort(key=lambda row: row.measured.median, reverse=True)
    return comparison


def _task(
    source: str, recipe: Recipe, settings: Settings, folder: Path, progress: Progress
) -> tuple[Task | WindowTask, list[str]]:
    """Return the task for all contestants, and sentences about images or videos that were left out."""
    alike: dict[str, Any] = {
        "batch_size": settings.batch_size,
        "device": _device(settings),
        "num_threads": settings.num_threads or usable_cores(),
    }
    if settings.windows is not None:
        progress("looking at the windows")
        how, seed = settings.how, settings.seed
        return make_window_task(source, settings.windows, seed, how=how, **alike), []
    alike |= {"recipe": recipe, "seed": settings.seed, "dtype": dtype_from(settings.dtype)}
    if settings.clips is not None:
        progress("looking at the videos")
        plan, left_out = make_plan(source, settings.clips, settings.seed, folder, how=settings.how)
        return Task(plan.clips, plan.files, plan.labels, plan=plan, **alike), left_out
    progress("looking at the images")
    images = collect(source, folder, how=settings.how)
    return Task(images.dataset, images.files, images.labels, **alike), images.left_out


def _open_contestants(
    contestants: Sequence[Contestant],
    task: Task | WindowTask,
    comparison: Comparison,
    stack: ExitStack,
    progress: Progress,
) -> Iterator[ContestantProcess]:
    """Start all contestants, and yield those that make the required batches; the others are recorded as absent."""
    progress("starting processes")
    processes: list[ContestantProcess] = []
    for contestant in contestants:
        try:
            process = ContestantProcess(contestant)
        except (Unable, OSError) as error:
            comparison.absent.append(Absent.because(contestant.name, contestant.kind, error))
        else:
            processes.append(stack.enter_context(closing(process)))
    for process in processes:
        progress(f"warming up: {process.name}")
        try:
            process.open(task)
        except Exception as error:  # noqa: BLE001 - a peer may raise anything; the result names it
            _drop(process, error, comparison)
        else:
            rest(process, task, _FIRST_RATE)
            yield process


def rest(process: ContestantProcess, task: Task | WindowTask, rate: float) -> None:
    """Wait until a contestant has filled its queue and leaves the cores to the next one; it makes `rate` items per second."""
    time.sleep(min(_REST_SECONDS_MAX, process.num_ahead * task.batch_size / max(rate, 1.0)))


def _drop(process: ContestantProcess, error: Exception, comparison: Comparison) -> None:
    """End a contestant that failed, and record the reason."""
    process.close()
    comparison.absent.append(Absent.because(process.name, process.kind, error))


def _device(settings: Settings) -> torch.device:
    return choose_settings(settings.device, "auto", "auto").device


def _everyone(settings: Settings) -> Sequence[Contestant]:
    if settings.windows is not None:
        dtype = settings.windows.dtype
        return [one for one in WINDOWS if dtype is None or one.options.get("dtype", dtype) == dtype]
    return IMAGES if settings.clips is None else VIDEOS


def _describe(
    source: str, settings: Settings, task: Task | WindowTask, left_out: list[str]
) -> dict[str, object]:
    alike = {
        "data": source,
        "left_out": left_out,
        "device": str(task.device),
        "threads": task.num_threads,
        "seconds": settings.seconds,
        "rounds": settings.rounds,
        "seed": settings.seed,
    }
    if isinstance(task, WindowTask):
        assert settings.windows is not None
        frames = " + ".join(map(str, task.lengths.values()))
        sizes = {f"{height}x{width}": None for height, width in task.sizes.values()}
        return {
            "windows": len(np.unique(task.plan)),
            "batch": f"{task.batch_size} windows of {frames} pictures of {' and '.join(sizes)}",
            "shuffle": settings.windows.shuffle,
            "delta_timestamps": task.options["delta_timestamps"],
            **alike,
        }
    clips = settings.clips
    taken = {"images": len(task.files)}
    if clips is not None:
        taken = {"videos": len(task.files), "num_frames": clips.num_frames, **clips.step}
    return {
        **taken,
        "recipe": task.recipe.to_dict(),
        "batch": f"{settings.dtype} {list(task.shape)}",
        "dtype": settings.dtype,
        **alike,
    }
