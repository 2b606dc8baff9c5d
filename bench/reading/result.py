"""Results of reading: rates and ratios per reader and format, and their table."""

from dataclasses import dataclass, field
from math import isnan
from statistics import median

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

Turn = tuple[float, float]
"""Samples and bytes per second."""


@dataclass(frozen=True)
class Entry:
    """Somebody who reads.

    Attributes:
        copy: What it reads, as in `bench.reading.copies.COPIES`.
        way: How, as in `bench.reading.ways.WAYS`.
        peer: Whose environment runs it; "" for this one.
    """

    copy: str
    way: str
    peer: str = ""

    @property
    def name(self) -> str:
        """As it is printed."""
        return f"gpu-aug, {self.copy}" if self.way == "ours" else f"{self.way} ({self.copy})"


ENTRIES = (
    Entry("files", "ours"),
    Entry("files", "torch_files"),
    Entry("tar", "ours"),
    Entry("tar", "webdataset"),
    Entry("parquet", "ours"),
    Entry("parquet", "pyarrow_take"),
    Entry("arrow", "ours"),
    Entry("arrow", "hf_datasets"),
    Entry("lmdb", "ours"),
    Entry("lmdb", "lmdb_get"),
    Entry("hdf5", "ours"),
    Entry("hdf5", "h5py_index"),
    Entry("tfrecord", "ours"),
    Entry("tfrecord", "tfrecord_loader"),
    Entry("array_record", "ours"),
    Entry("array_record", "array_record"),
    Entry("array_record", "grain_array_record", "grain"),
    Entry("mds", "ours"),
    Entry("mds", "mosaic", "mosaic-streaming"),
    Entry("litdata", "litdata", "litdata"),
)


@dataclass
class Result:
    """The measurements.

    Attributes:
        samples: Number of samples in every copy.
        num_bytes: Their size.
        warm: By reader, (samples/s, bytes/s) of every round.
        cold: Likewise.
        absent: By reader, why it took no part.
    """

    samples: int
    num_bytes: int
    warm: dict[str, list[Turn]] = field(default_factory=dict)
    cold: dict[str, list[Turn]] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)


def ratios(
    turns: dict[str, list[Turn]],
) -> dict[str, tuple[float, str, float]]:
    """For every row of ours: the median over rounds of its speed, to the fastest of its own format's, and of all."""
    ours = {entry.name: entry for entry in ENTRIES if entry.way == "ours" and entry.name in turns}
    peers = {entry.name: entry for entry in ENTRIES if entry.way != "ours" and entry.name in turns}
    found = {}
    for name, mine in ours.items():
        same = [peer for peer, entry in peers.items() if entry.copy == mine.copy]
        fastest = max(same, key=lambda peer: _median(turns[peer]), default="")
        own = _ratio(turns[name], turns[fastest]) if fastest else float("nan")
        overall = max(peers, key=lambda peer: _median(turns[peer]), default="")
        of_all = _ratio(turns[name], turns[overall]) if overall else float("nan")
        found[name] = (own, fastest, of_all)
    return found


def _ratio(mine: list[Turn], other: list[Turn]) -> float:
    return median(a[0] / b[0] for a, b in zip(mine, other, strict=True))


def _median(turns: list[Turn]) -> float:
    return median(rate for rate, _ in turns)


def rows_of(result: Result) -> dict[str, object]:
    """Convert to rows of the JSON: every turn, and the ratios."""
    found = {"warm": ratios(result.warm), "cold": ratios(result.cold)}
    named = {
        kind: {
            name: {"own": None if isnan(own) else own, "fastest_own": other, "all": of_all}
            for name, (own, other, of_all) in rows.items()
        }
        for kind, rows in found.items()
    }
    return {**vars(result), "ratios": named}


def show(result: Result, console: Console) -> None:
    """Print the table and who is absent."""
    mean_kb = result.num_bytes / result.samples / 1000
    console.print(
        f"{result.samples} samples of {mean_kb:.0f} kB on average, in every format; every byte's page is read",
        highlight=False,
    )
    table = Table(box=SIMPLE_HEAD)
    table.add_column("shuffled reads", no_wrap=True)
    for kind in ("warm", "cold"):
        for title in (f"{kind} samples/s", "MB/s", "x own", "x all"):
            table.add_column(title, justify="right")
    warm, cold = ratios(result.warm), ratios(result.cold)
    for entry in ENTRIES:
        if entry.name in result.warm:
            style = "green" if entry.way == "ours" else ""
            cells = [*_cells(result.warm, warm, entry.name), *_cells(result.cold, cold, entry.name)]
            # A format's other readers stand below ours.
            shown = entry.name if entry.way == "ours" else f"  {entry.way}"
            table.add_row(shown, *cells, style=style)
    console.print(table)
    console.print(
        "x own, x all: to the fastest other reader of the same format and of any, median over rounds"
    )
    for name, reason in result.absent.items():
        console.print(Text(f"absent: {name}: {reason}", style="yellow"), soft_wrap=True)


def _cells(
    turns: dict[str, list[Turn]],
    found: dict[str, tuple[float, str, float]],
    name: str,
) -> list[str]:
    if name not in turns:
        return [""] * 4
    rate, speed = _median(turns[name]), median(speed for _, speed in turns[name])
    own, _, of_all = found.get(name, (float("nan"), "", float("nan")))
    ratios_shown = ["" if isnan(ratio) else f"{ratio:.2f}" for ratio in (own, of_all)]
    return [f"{rate:,.0f}", f"{speed / 1e6:,.0f}", *ratios_shown]
