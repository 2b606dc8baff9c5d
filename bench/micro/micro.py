"""Run the small benchmarks by name and show their results, for `gpu-aug bench micro`."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType

from bench.compare.photographs import make_photographs
from bench.micro import decode, overhead, scale
from bench.micro.rows import Row, Task, measure_row, show_rows
from bench.output.arguments import check_writable
from bench.output.errors import choose, require_above_zero
from bench.output.results import save_result
from bench.output.text import print_line, wide_console

_QUICK_SECONDS = 0.01
_PHOTOGRAPHS_PER_CLASS = (
    8  # 64 in total: more than any benchmark decodes at once, made in a few seconds
)


BENCHMARKS: Mapping[str, tuple[Callable[[Task], Iterator[Row]], str]] = {
    "decode": (decode.rows, decode.MEANING),
    "overhead": (overhead.rows, overhead.MEANING),
    "scale": (scale.rows, scale.MEANING),
}
"""By name: a function that yields the rows, and a caption that explains the numbers.

Resources of a row may be closed when the next row is requested."""


@dataclass(frozen=True)
class RunSettings:
    """The data and the length of a small benchmark, as given on the command line.

    Attributes:
        source: Photographs, as for `readers.open_dataset`; None uses those that scikit-image ships.
        seconds: Measured time per contestant and row in seconds, over all rounds.
        rounds: Count of rounds; in each, every contestant is measured once.
        quick: Whether to run one short turn with tiny inputs.
        json_path: A file that also gets the result; None writes no file.

    Raises:
        BenchError: A number is not positive, or the file cannot be written.
    """

    source: str | None
    seconds: float
    rounds: int
    quick: bool
    json_path: Path | None

    def __post_init__(self) -> None:
        check_writable(self.json_path)
        require_above_zero(seconds=self.seconds, rounds=self.rounds)


def micro_and_show(name: str, settings: RunSettings) -> None:
    """Run one of BENCHMARKS, print its table and write it to a file.

    Raises:
        readers.ReadersError: The source cannot be opened or has no samples.
        BenchError: The benchmark is unknown, or nothing decodes.
    """
    measure_and_show(f"bench micro {name}", *choose("NAME", name, BENCHMARKS), settings)


def measure_and_show(
    title: str,
    rows: Callable[[Task], Iterator[Row]],
    meaning: str,
    settings: RunSettings,
    *,
    order_seed: int | None = None,
    origin: Mapping[str, object] = MappingProxyType({}),
) -> None:
    """Measure the rows of a benchmark, print its table and write it to a file.

    Args:
        title: The command.
        rows: A function that yields the rows.
        meaning: A caption that explains the numbers.
        settings: The data and the length.
        order_seed: Seed of the random order of the contestants in each round; None rotates them.
        origin: Further entries of the file, which are also printed, a line each.
    """
    seconds, rounds = (_QUICK_SECONDS, 1) if settings.quick else (settings.seconds, settings.rounds)
    console = wide_console()
    with TemporaryDirectory(prefix="gpu-aug-") as folder, console.status("starting") as status:
        if settings.source is None:
            make_photographs(Path(folder) / "made", per_class=_PHOTOGRAPHS_PER_CLASS)
        task = Task(settings.source or str(Path(folder) / "made"), Path(folder), settings.quick)
        results = [
            measure_row(
                row,
                seconds=seconds,
                rounds=rounds,
                progress=status.update,
                order_seed=order_seed,
            )
            for row in rows(task)
        ]
    show_rows(title, meaning, results, console)
    for name, value in origin.items():
        print_line(f"{name}: {value}", console=console)
    used = {
        "data": settings.source or "scikit-image's photographs",
        "seconds": seconds,
        "rounds": rounds,
        "quick": settings.quick,
    }
    contents = [result.to_dict() for result in results]
    save_result(settings.json_path, console, title, used, contents, meaning=meaning, **dict(origin))
