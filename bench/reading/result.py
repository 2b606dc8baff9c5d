"""Define the results of reading: rates and ratios per reader and format, and their table."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

from rich.console import Console

from bench.output.text import print_line, result_table
from bench.timing import Measurement, ratio

# Largest length of a traceback's last line, which may quote a complete sample.
_REASON_CHARACTERS = 200


@dataclass(frozen=True)
class Entry:
    """A reader that is measured: a way of reading a format.

    Attributes:
        copy: Format of the copy that the reader reads, a key of `bench.reading.copies.COPIES`.
        way: The way of reading, a key of `bench.reading.ways.WAYS`.
        peer: The peer (loader of another project) whose environment runs the reader; "" for this environment.
    """

    copy: str
    way: str
    peer: str = ""

    @property
    def name(self) -> str:
        """Name of the reader in the results."""
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
        samples: Count of samples in every copy.
        num_bytes: Size of these samples in bytes.
        warm: By reader, the measurements with the data in the page cache.
        cold: By reader, the measurements with an empty page cache.
        absent: By reader, the reason why it did not take part.
    """

    samples: int
    num_bytes: int
    warm: dict[str, Measurement] = field(default_factory=dict)
    cold: dict[str, Measurement] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)

    def leave_out(self, name: str, error: Exception) -> None:
        """Record an error as the reason why a reader takes no further part."""
        self.absent[name] = str(error)[:_REASON_CHARACTERS]

    def to_dict(self) -> dict[str, object]:
        """Return values for JSON: by reader, the samples and bytes per second of each round, and our ratios."""

        def runs_of(measured: Mapping[str, Measurement]) -> dict[str, list[tuple[float, float]]]:
            return {
                name: list(zip(own.rates, _bytes_per_second(own), strict=True))
                for name, own in measured.items()
            }

        return {
            **vars(self),
            "warm": runs_of(self.warm),
            "cold": runs_of(self.cold),
            "ratios": {"warm": ratios_of(self.warm), "cold": ratios_of(self.cold)},
        }


def ratios_of(measured: Mapping[str, Measurement]) -> dict[str, dict[str, float | str | None]]:
    """Return for each of our readers how many times as fast as other readers it is, the median over rounds.

    Returns:
        For each of our readers "own", the ratio to the fastest other reader of the same format; "fastest_own", its
        name; and "all", the ratio to the fastest other reader of any format. None if there is no other reader.
    """
    others = [entry for entry in ENTRIES if entry.way != "ours" and entry.name in measured]

    def fastest(names: list[str]) -> str:
        return max(names, key=lambda name: measured[name].median, default="")

    ratios: dict[str, dict[str, float | str | None]] = {}
    for entry in ENTRIES:
        if entry.way == "ours" and entry.name in measured:
            own = fastest([other.name for other in others if other.copy == entry.copy])
            of_all = fastest([other.name for other in others])
            mine = measured[entry.name]
            ratios[entry.name] = {
                "fastest_own": own,
                "own": ratio(mine, measured[own]).median if own else None,
                "all": ratio(mine, measured[of_all]).median if of_all else None,
            }
    return ratios


def show(result: Result, console: Console) -> None:
    """Print the table, and the readers that are absent."""
    mean_kb = result.num_bytes / result.samples / 1000
    table = result_table(
        f"shuffled reads of {result.samples} samples of {mean_kb:.0f} kB on average; every byte's page is read",
        "CPU ms: of all its processes for one sample; x own, x all: speed relative to the fastest other reader "
        "of the same format and of any, median over rounds",
        "reader",
        *("warm samples/s", "MB/s", "CPU ms", "x own", "x all"),
        *("cold samples/s", "MB/s", "CPU ms", "x own", "x all"),
    )
    for entry in ENTRIES:
        if entry.name in result.warm:
            is_ours = entry.way == "ours"
            table.add_row(
                entry.name if is_ours else f"  {entry.way}",  # other readers are listed below ours
                *_cells(entry.name, result.warm),
                *_cells(entry.name, result.cold),
                style="green" if is_ours else "",
            )
    console.print(table)
    for name, reason in result.absent.items():
        print_line(f"absent: {name}: {reason}", "yellow", console)


def _cells(name: str, measured: Mapping[str, Measurement]) -> list[str]:
    if name not in measured:
        return [""] * 5
    own, ratios = measured[name], ratios_of(measured).get(name, {})
    return [
        f"{own.median:,.0f}",
        f"{median(_bytes_per_second(own)) / 1e6:,.0f}",
        f"{own.cpu_seconds_per_item * 1e3:.3f}",
        *("" if ratios.get(kind) is None else f"{ratios[kind]:.2f}" for kind in ("own", "all")),
    ]


def _bytes_per_second(measurement: Measurement) -> list[float]:
    return [turn.num_bytes / max(turn.seconds, 1e-9) for turn in measurement.turns]
