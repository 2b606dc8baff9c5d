"""The report of a comparison: a table and sentences for people, JSON for programs."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.cli.arguments import check_writable, recipe_from
from bench.compare.compare import Settings, compare, expected_minutes, num_contestants
from bench.compare.contestant import STAGES
from bench.compare.ratios import RATIO_MEANING, fastest_baseline, ratio_table, ratios, times
from bench.compare.result import Comparison, Row
from bench.output.errors import BenchError
from bench.output.results import document, write_json
from bench.output.text import TABLE_WIDTH, print_plain, print_written, result_table, wide_console
from gpu_aug import Views
from readers.plural import counted

SHARE_MEANING = (
    "read, decode, augment and copy add up to 1: of our rows they are what the loader's threads spent, "
    "summed over threads (with DALI, decode is the time spent waiting for it); of the baselines they are "
    "from a separate pass over 48 images on one thread, where decode is opening less reading, or for DALI "
    "from pipelines that stop after each part. wait is the part of the measured time that the consumer, "
    "which does nothing else, waited for the next batch. null is not known."
)

# Ours beside the baseline that does the same work with the same libraries.
_COUNTERPARTS = {
    "gpu-aug/cpu+albumentations": "opencv-albumentations",
    "gpu-aug/dali+kornia": "dali-cpu",
}
_CLIPS_WIDTH = 112  # columns that the whole table takes
_COLOURS = {"engine": "green", "baseline": "", "ceiling": "dim"}


def compare_and_show(
    source: str, recipe: str, settings: Settings, *, json_path: Path | None
) -> Comparison:
    """Compare, with a line of progress on a terminal; print the result and write it down."""
    check_writable(json_path)
    parsed = recipe_from(recipe)
    if isinstance(parsed, Views):
        raise BenchError(
            f"the baselines make one view, got {len(parsed)} in {recipe}: give a Recipe"
        )
    width = TABLE_WIDTH if settings.clips is None else _CLIPS_WIDTH
    console = wide_console(width)
    print_plain(Console(stderr=True), expected_duration(settings), "dim")
    with console.status("starting") as status:
        progress = status.update if console.is_terminal else _PartPrinter()
        comparison = compare(source, parsed, settings, progress)
    show_comparison(comparison, console)
    if json_path is not None:
        write_json(json_path, comparison_document(comparison))
        print_written(console, json_path)
    return comparison


def expected_duration(settings: Settings) -> str:
    """Say how long a comparison takes, and of what this is made up."""
    minutes, count = expected_minutes(settings), num_contestants(settings)
    time = f"{minutes:.0f} min" if minutes >= 1 else f"{60 * minutes:.0f} s"
    return (
        f"this takes about {time}: {counted(count, 'pipeline')} x {counted(settings.rounds, 'round')} x "
        f"{settings.seconds / settings.rounds:.3g} s, and their starts (--only, --rounds and --seconds shorten it)"
    )


def comparison_document(comparison: Comparison) -> dict[str, object]:
    """The JSON of a comparison."""
    return document(
        "bench compare",
        comparison.settings,
        [row.to_dict() for row in comparison.rows],
        absent=[
            {"name": absent.name, "kind": absent.kind, "reason": absent.reason}
            for absent in comparison.absent
        ],
        ratios=ratios(comparison.rows),
        verdicts=verdicts(comparison.rows),
        ratio_meaning=RATIO_MEANING,
        share_meaning=SHARE_MEANING,
    )


def show_comparison(comparison: Comparison, console: Console) -> None:
    """Print the table, who is absent and why, and the verdicts."""
    width = _CLIPS_WIDTH if "videos" in comparison.settings else TABLE_WIDTH
    console.print(_table(comparison, with_runs=console.width >= width))
    if (ratios_found := ratio_table(comparison.rows)) is not None:
        console.print(ratios_found)
    for row in comparison.rows:
        if row.kind != "engine":
            print_plain(console, f"{row.name}: {row.note}", "dim")
    for absent in comparison.absent:
        print_plain(console, f"{absent.name} took no part: {absent.reason}", "yellow")
    for fault in _some(comparison.settings.get("left_out")):
        print_plain(console, f"left out for everybody: {fault}", "yellow")
    for verdict in verdicts(comparison.rows):
        print_plain(console, verdict)


def verdicts(rows: Sequence[Row]) -> list[str]:
    """How each of ours stands by the ratios within rounds, wins and losses in the same words."""
    by_name = {row.name: row for row in rows}
    ceiling = next((row for row in rows if row.kind == "ceiling"), None)
    best = fastest_baseline(rows)
    sentences = []
    for row in (row for row in rows if row.kind == "engine"):
        clauses = []
        if best is not None:
            clauses.append(_against(row, best, "the fastest baseline, "))
        counterpart = by_name.get(_COUNTERPARTS.get(row.name, ""))
        if counterpart is not None and counterpart is not best:
            clauses.append(_against(row, counterpart, ""))
        if ceiling is not None:
            clauses.append(f"reaches {times(row, ceiling):.0%} of {ceiling.name}")
        if clauses:
            sentences.append(f"{row.name} {', '.join(clauses)}.")
    return sentences


def _against(row: Row, other: Row, what: str) -> str:
    ratio = times(row, other)
    word = "wins" if ratio >= 1 else "loses"
    return f"{word} against {what}{other.name} ({ratio:.2f} times its speed)"


def _median(row: Row) -> float:
    return row.rate.median


def _table(comparison: Comparison, *, with_runs: bool) -> Table:
    settings = comparison.settings
    kind, unit = ("videos", "clips/s") if "videos" in settings else ("images", "images/s")
    size, threads = int(str(settings[kind])), int(str(settings["threads"]))
    runs = ("runs",) if with_runs else ()
    more = ("frames/s",) if kind == "videos" else ()
    table = result_table(
        f"{settings['batch']} on {settings['device']}, {counted(threads, 'thread')}, "
        f"{counted(size, kind[:-1])} of {settings['data']}",
        f"{unit}: median of the runs; ratio: to the baseline that is fastest by that; "
        "here and below it is the median of the ratios within each round",
        "pipeline",
        *(unit, *runs, *more, "ratio", *STAGES, "wait"),
    )
    best = fastest_baseline(comparison.rows)
    for row in comparison.rows:
        shares = [row.share.get(part) for part in (*STAGES, "wait")]
        digits = 1 if kind == "videos" else 0
        spread = f"{min(row.rate.runs):.{digits}f}-{max(row.rate.runs):.{digits}f}"
        table.add_row(
            row.name,
            f"{_median(row):.{digits}f}",
            *([spread] if with_runs else []),
            *(f"{_median(row) * row.num_frames:.0f}" for _ in more),
            "-" if best is None else f"{times(row, best):.2f}",
            *("-" if share is None else f"{share:.0%}" for share in shares),
            style=_COLOURS[row.kind],
        )
    return table


class _PartPrinter:
    """Progress without a terminal to rewrite: a line for every part that begins."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._last = ""

    def __call__(self, text: str) -> None:
        part = text.partition(":")[0]
        if part != self._last:
            self._console.print(part, style="dim")
        self._last = part


def _some(faults: object) -> list[str]:
    """The first faults, and how many more there are."""
    if not isinstance(faults, list):
        return []
    rest = [f"and {len(faults) - 5} more"] if len(faults) > 5 else []
    return [*faults[:5], *rest]
