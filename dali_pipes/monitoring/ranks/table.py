"""RankTable: where all ranks of a run stand, for people and for programs."""

from collections.abc import Iterator, Sequence
from typing import Any

from dali_pipes.monitoring.ranks.late import find_late
from dali_pipes.monitoring.ranks.rank_report import Note

_HEAD = (
    "rank",
    "epoch",
    "step",
    "waits for",
    "since",
    "heard",
    "images/s",
    "waited",
    "slowest stage",
)


class RankTable(Sequence[Note]):
    """The latest note of every rank that was heard of; printed, it is a table.

    Args:
        notes: By rank.
        said: Why those of other ranks are not there; "" if they are.

    Attributes:
        late: A sentence for each rank for which the others wait, the latest first.

    Example:
        >>> loader = Loader(open_dataset("photos/"), Recipe.imagenet_train(size=64), batch_size=8)
        >>> for batch in loader:
        ...     pass
        >>> table = loader.ranks()
        >>> [note.rank for note in table], table.late
        ([0], [])
    """

    def __init__(self, notes: Sequence[Note], said: str = "") -> None:
        self._notes, self._said = list(notes), said
        self.late = [late.text for late in find_late(self._notes)]

    def __len__(self) -> int:
        return len(self._notes)

    def __getitem__(self, place: Any) -> Any:
        return self._notes[place]

    def __iter__(self) -> Iterator[Note]:
        return iter(self._notes)

    def __repr__(self) -> str:
        rows = [_HEAD, *map(_row, self._notes)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        return "\n".join([*lines, *self.late, *([self._said] if self._said else [])])


def _row(note: Note) -> tuple[str, ...]:
    slowest = max(note.stages, key=lambda stage: note.stages[stage], default="")
    stage = f"{slowest} {note.stages[slowest] * 1e3:.3g} ms" if slowest else "-"
    what = f"{note.state}: {note.waits_for}" if note.waits_for else note.state
    return (
        str(note.rank),
        str(note.epoch),
        str(note.steps),
        what,
        f"{note.state_seconds:.0f} s",
        f"{note.age_seconds:.0f} s ago",
        f"{note.images_per_second:.4g}" if note.samples else "-",
        f"{note.wait_share:.0%}" if note.window_seconds else "-",
        stage,
    )
