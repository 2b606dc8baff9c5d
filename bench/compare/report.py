"""Report a comparison: print tables for people, and write JSON for programs."""

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.baselines.peers.catalog import ENVIRONMENTS, PEERS, install_peers
from bench.compare.compare import Settings, compare, contestants_of
from bench.compare.contestants import missing_peers
from bench.compare.result import (
    RATIO_MEANING,
    Comparison,
    Row,
    fastest_baseline,
    ratios,
    times,
    verdicts,
)
from bench.output.arguments import check_writable, recipe_from
from bench.output.errors import BenchError
from bench.output.results import save_result
from bench.output.text import (
    TABLE_WIDTH,
    plain_table,
    print_line,
    result_table,
    wide_console,
)
from gpu_aug import Views
from readers.plural import counted

_OURS = "gpu-aug/"
_COLOURS = {"engine": "green", "baseline": "", "ceiling": "dim"}
_MOST_LEFT_OUT = 5
# For the estimate: seconds of a start, and of a turn in addition to its measured time (rest, discarded batches).
_START_SECONDS, _BESIDE_TURN_SECONDS = 8.0, 4.0


def compare_and_show(
    source: str, recipe: str, settings: Settings, *, json_path: Path | None
) -> Comparison:
    """Compare with a line of progress on a terminal; print the result, write it to a file and return it."""
    check_writable(json_path)
    parsed = recipe_from(recipe)
    if isinstance(parsed, Views):
        raise BenchError(
            f"the baselines make one view, got {len(parsed)} in {recipe}: give a Recipe"
        )
    console = wide_console()
    if settings.peers:
        _install(settings, console)
    print_line(expected_duration(settings), "dim", Console(stderr=True))
    with console.status("starting") as status:
        progress = status.update if console.is_terminal else _print_parts()
        comparison = compare(source, parsed, settings, progress)
    show_comparison(comparison, console)
    save_result(
        json_path,
        console,
        "bench compare",
        comparison.settings,
        [row.to_dict() for row in comparison.rows],
        absent=[vars(absent) for absent in comparison.absent],
        not_installed=comparison.missing_peers,
        ratios=ratios(comparison.rows),
        verdicts=verdicts(comparison.rows),
        ratio_meaning=RATIO_MEANING,
    )
    return comparison


def expected_duration(settings: Settings) -> str:
    """Return a text with the approximate duration of a comparison if all contestants run; large data takes longer."""
    count = len(contestants_of(settings))
    start_seconds = _START_SECONDS + settings.rounds * _BESIDE_TURN_SECONDS
    minutes = count * (settings.seconds + start_seconds) / 60
    time = f"{minutes:.0f} min" if minutes >= 1 else f"{60 * minutes:.0f} s"
    return (
        f"this takes about {time}: {counted(count, 'pipeline')} x {counted(settings.rounds, 'round')} x "
        f"{settings.seconds / settings.rounds:.3g} s, and their starts (--only, --rounds and --seconds shorten it)"
    )


def _install(settings: Settings, console: Console) -> None:
    """Install the requested peers that are missing, after printing their names, location and size."""
    names = missing_peers(contestants_of(settings))
    if not names:
        return
    sizes = ", ".join(f"{name} (about {PEERS[name].megabytes} MB)" for name in names)
    print_line(f"installing into {ENVIRONMENTS.absolute()}: {sizes}", console=console)
    with console.status("installing") as status:
        install_peers(names, status.update)


def show_comparison(comparison: Comparison, console: Console) -> None:
    """Print the table, the absent contestants with reasons, and the verdicts."""
    console.print(_table(comparison, with_runs=console.width >= TABLE_WIDTH))
    _print_ratios(comparison.rows, console)
    lines = [(f"{row.name}: {row.note}", "dim") for row in comparison.rows if row.kind != "engine"]
    notes = [f"{absent.name} took no part: {absent.reason}" for absent in comparison.absent]
    if names := comparison.missing_peers:
        notes.append(
            f"not installed: {', '.join(names)} (gpu-aug bench compare DATA --peers all installs and compares them)"
        )
    faults = comparison.settings.get("left_out")
    assert isinstance(faults, list)
    notes += [f"left out for everybody: {fault}" for fault in faults[:_MOST_LEFT_OUT]]
    if (more := len(faults) - _MOST_LEFT_OUT) > 0:
        notes.append(f"left out for everybody: and {more} more")
    lines += [(note, "yellow") for note in notes]
    for text, style in [*lines, *((verdict, "") for verdict in verdicts(comparison.rows))]:
        print_line(text, style, console)


def _table(comparison: Comparison, *, with_runs: bool) -> Table:
    settings = comparison.settings
    item = {"videos": "clip", "windows": "window"}
    kind = next((one for one in item if one in settings), "images")
    unit = f"{item.get(kind, 'image')}s/s"
    size, threads = int(str(settings[kind])), int(str(settings["threads"]))
    is_video, digits = kind != "images", 1 if kind != "images" else 0
    runs, frames = ["runs"] * with_runs, ["frames/s"] * is_video
    memory = ["peak MB"] * (kind == "windows")
    table = result_table(
        f"{settings['batch']} on {settings['device']}, {counted(threads, 'thread')}, "
        f"{counted(size, kind[:-1])} of {settings['data']}",
        f"{unit}: median of the runs; ratio: to the fastest baseline, here and below the median of the ratios "
        f"within each round; CPU ms: of all its processes per {item.get(kind, 'image')}; wait: of the consumer, "
        "which does nothing else",
        "pipeline",
        *(unit, *runs, *frames, "ratio", "CPU ms", "wait", *memory),
    )
    best = fastest_baseline(comparison.rows)
    for row in comparison.rows:
        rates = row.measured.rates
        table.add_row(
            row.name,
            f"{row.measured.median:.{digits}f}",
            *[f"{min(rates):.{digits}f}-{max(rates):.{digits}f}"] * with_runs,
            *[f"{row.measured.median * row.num_frames:.0f}"] * is_video,
            "-" if best is None else f"{times(row, best):.2f}",
            f"{1e3 * row.measured.cpu_seconds_per_item:.{1 if is_video else 2}f}",
            f"{row.measured.wait_share:.0%}",
            *[f"{row.measured.peak_bytes / 1e6:.0f}"] * len(memory),
            style=_COLOURS[row.kind],
        )
    return table


def _print_ratios(rows: list[Row], console: Console) -> None:
    """Print how many times faster each of our pipelines (in columns) is than each other row."""
    ours = [row for row in rows if row.kind == "engine"]
    others = [row for row in rows if row.kind != "engine"]
    if not ours or not others:
        return
    table = plain_table()
    table.title, table.title_justify = "times the speed of the row", "left"
    table.add_column("", no_wrap=True)
    for mine in ours:
        heading = mine.name.removeprefix(_OURS).replace("+", "+\n").replace(" ", "\n")
        heading = heading.replace("albumentations", "albu-\nmentations")
        table.add_column(heading, justify="right", overflow="fold")
    for other in others:
        table.add_row(other.name, *(f"{times(mine, other):.2f}" for mine in ours))
    console.print(table)


def _print_parts() -> Callable[[str], None]:
    """Return a progress function for output without a terminal: it prints a line when a part starts."""
    print_once = cache(partial(Console(stderr=True).print, style="dim"))
    return lambda text: print_once(text.partition(":")[0])
