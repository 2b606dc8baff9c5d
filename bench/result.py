"""What a comparison comes to: rows with rates, and who has none."""

from dataclasses import dataclass, field

from bench.contestant import Kind, Share
from bench.timer import Rate


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
    """A contestant without a result, and the reason; with the traceback where it crashed."""

    name: str
    kind: Kind
    reason: str
    trace: str = ""


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
