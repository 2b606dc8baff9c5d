"""Define the result of a comparison: rows with rates, and contestants without a result."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.compare.task import Kind
from bench.timing import Measurement, ratio

RATIO_MEANING = (
    "every ratio, in ratios and in verdicts, is the median over rounds of the ratio within a round; the "
    "fastest baseline is the one with the largest median of its runs."
)


@dataclass(frozen=True)
class Row:
    """The result of one contestant.

    Attributes:
        measured: The rates of its turns (timed intervals), in images or clips per second.
        note: A note that a reader needs for a fair comparison.
        num_frames: Frames of a clip; 0 for images.
    """

    name: str
    kind: Kind
    measured: Measurement
    note: str = ""
    num_frames: int = 0

    def to_dict(self) -> dict[str, object]:
        """Return the row as values for JSON."""
        return {
            "name": self.name,
            "kind": self.kind,
            **rates_of(self.measured, self.num_frames),
            "cpu_ms_per_item": self.measured.to_dict()["cpu_ms_per_item"],
            "wait_share": round(self.measured.wait_share, 3),
            "peak_bytes": self.measured.peak_bytes,
            "note": self.note,
        }


def rates_of(measured: Measurement, num_frames: int) -> dict[str, object]:
    """Return images per second, or clips and frames per second."""
    scales = {"clips_per_second": 1, "frames_per_second": num_frames}
    return {
        name: {
            key: value for key, value in measured.to_dict(scale).items() if key != "cpu_ms_per_item"
        }
        for name, scale in (scales if num_frames else {"images_per_second": 1}).items()
    }


@dataclass(frozen=True)
class Absent:
    """A contestant without a result, and the reason."""

    name: str
    kind: Kind
    reason: str

    @classmethod
    def because(cls, name: str, kind: Kind, error: Exception) -> "Absent":
        """Return an Absent whose reason is the text of an error in one line."""
        return cls(name, kind, " ".join(str(error).split()))


@dataclass
class Comparison:
    """The result of a comparison.

    Attributes:
        rows: The rows, fastest first.
        absent: Contestants that did not take part, or failed.
        missing_peers: Names of peers (loaders of other projects) that could take part if they were installed.
        settings: Settings shared by all contestants.
    """

    rows: list[Row] = field(default_factory=list)
    absent: list[Absent] = field(default_factory=list)
    missing_peers: list[str] = field(default_factory=list)
    settings: dict[str, object] = field(default_factory=dict)


def times(one: Row, other: Row) -> float:
    """Return the ratio of the rates of two rows: the median over rounds of the ratio within a round."""
    return ratio(one.measured, other.measured).median


def fastest_baseline(rows: Sequence[Row]) -> Row | None:
    """Return the baseline with the highest median rate, as in the table; None if no baseline has a result."""
    baselines = (row for row in rows if row.kind == "baseline")
    return max(baselines, key=lambda row: row.measured.median, default=None)


def ratios(rows: Sequence[Row]) -> dict[str, dict[str, dict[str, object]]]:
    """Return, by the name of each of our rows and of each other row, the "median" and "runs" of the ratio of rates."""
    ours = [row for row in rows if row.kind == "engine"]
    others = [row for row in rows if row.kind != "engine"]
    return {
        mine.name: {other.name: ratio(mine.measured, other.measured).to_dict() for other in others}
        for mine in ours
    }


def verdicts(rows: Sequence[Row]) -> list[str]:
    """Return a sentence about each of our pipelines, by the ratios within rounds, worded alike for wins and losses."""
    ceiling = next((row for row in rows if row.kind == "ceiling"), None)
    best = fastest_baseline(rows)
    sentences = []
    for row in (row for row in rows if row.kind == "engine"):
        clauses = []
        if best is not None:
            factor = times(row, best)
            verb = "wins" if factor >= 1 else "loses"
            clauses.append(
                f"{verb} against the fastest baseline, {best.name} ({factor:.2f} times its speed)"
            )
        if ceiling is not None:
            clauses.append(f"reaches {times(row, ceiling):.0%} of {ceiling.name}")
        if clauses:
            sentences.append(f"{row.name} {', '.join(clauses)}.")
    return sentences
