"""Run the small benchmarks by name and show their results, for `gpu-aug bench micro`."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.compare.photographs import make_photographs
from bench.micro import decode, ops, overhead, scale
from bench.micro.rows import Row, Task, measure_row, show_rows
from bench.output.arguments import check_writable
from bench.output.errors import BenchError
from bench.output.results import save_result
from bench.output.text import wide_console

_QUICK_SECONDS = 0.01
_PHOTOGRAPHS_PER_CLASS = (
    8  # 64 in total: more than any benchmark decodes at once, made in a few seconds
)


BENCHMARKS: Mapping[str, tuple[Callable[[Task], Iterator[Row]], str]] = {
    "ops": (ops.rows, ops.MEANING),
    "decode": (decode.rows, decode.MEANING),
    "overhead": (overhead.rows, overhead.MEANING),
    "scale": (scale.rows, scale.MEANING),
}
"""By name: a function that yields the rows, and a caption that explains the numbers.

Resources of a row may be closed when the next row is requested."""


def micro_and_show(
    name: str,
    source: str | None,
    *,
    seconds: float,
    rounds: int,
    quick: bool,
    json_path: Path | None,
) -> None:
    """Run one benchmark, print its table and write it to a file.

    Args:
        name: One of BENCHMARKS.
        source: Photographs, as for `readers.open_dataset`; None uses those that scikit-image ships.
        seconds: Measured time per contestant in seconds, over all rounds.
        rounds: Count of rounds; in each, every contestant is measured once.
        quick: Whether to run one short turn with tiny inputs.
        json_path: A file that also gets the result; None writes no file.

    Raises:
        readers.ReadersError: The source cannot be opened or has no samples.
        BenchError: The benchmark is unknown, a number is not positive, or nothing decodes.
    """
    check_writable(json_path)
    if name not in BENCHMARKS:
        raise BenchError(f"NAME must be one of {', '.join(BENCHMARKS)}, got {name!r}: choose one")
    if not (seconds > 0 and rounds > 0):
        raise BenchError(
            f"seconds and rounds must be greater than 0, got {seconds} and {rounds}: leave them out"
        )
    if quick:
        seconds, rounds = _QUICK_SECONDS, 1
    title, console, (rows, meaning) = f"bench micro {name}", wide_console(), BENCHMARKS[name]
    with TemporaryDirectory(prefix="gpu-aug-") as folder, console.status("starting") as status:
        if source is None:
            make_photographs(Path(folder) / "made", per_class=_PHOTOGRAPHS_PER_CLASS)
        task = Task(source or str(Path(folder) / "made"), Path(folder), quick)
        results = [
            measure_row(row, seconds=seconds, rounds=rounds, progress=status.update)
            for row in rows(task)
        ]
    show_rows(title, meaning, results, console)
    settings = {
        "data": source or "scikit-image's photographs",
        "seconds": seconds,
        "rounds": rounds,
        "quick": quick,
    }
    contents = [result.to_dict() for result in results]
    save_result(json_path, console, title, settings, contents, meaning=meaning)
