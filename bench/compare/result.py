"""The result of a comparison: rows with rates, and the contestants without one."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bench.compare.contestant import Kind, Share
from bench.compare.timer import Rate


@dataclass(frozen=True)
class Row:
    """One contestant's result.

    Attributes:
        rate: Images, or clips, per second.
        num_frames: Frames of a clip; 0 for images.
        busy: "percent of the cores", of the GPU and of its decoders, as far as they are known.
    """

    name: str
    kind: Kind
    rate: Rate
    share: Share
    note: str
    num_frames: int = 0
    busy: Mapping[str, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, object]:
        """Convert to JSON values."""
        return {
            "name": self.name,
            "kind": self.kind,
            **rates_of(self.rate, self.num_frames),
            "share": self.share,
            "note": self.note,
            **self.busy,
        }


def rates_of(rate: Rate, num_frames: int) -> dict[str, object]:
    """Images per second; or clips per second, and frames per second."""
    if not num_frames:
        return {"images_per_second": rate.to_dict()}
    frames = Rate(tuple(run * num_frames for run in rate.runs))
    return {"clips_per_second": rate.to_dict(), "frames_per_second": frames.to_dict()}


@dataclass(frozen=True)
class Absent:
    """A contestant without a result, and the reason; with the traceback where it crashed."""

    name: str
    kind: Kind
    reason: str
    trace: str = ""


@dataclass
class Comparison:
    """The result of a comparison.

    Attributes:
        rows: Fastest first.
        absent: Contestants that did not take part, or failed.
        settings: Settings shared by all.
    """

    rows: list[Row] = field(default_factory=list)
    absent: list[Absent] = field(default_factory=list)
    settings: dict[str, object] = field(default_factory=dict)
