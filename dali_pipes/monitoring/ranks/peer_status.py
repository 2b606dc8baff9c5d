"""What a rank has heard of the others: their latest notes, and for how long each has been silent."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from dali_pipes.monitoring.ranks.board import Board
from dali_pipes.monitoring.ranks.rank_report import Note


@dataclass(slots=True)
class _Latest:
    note: Note
    since: float
    is_live: bool


class Heard:
    """Keeps the latest note of each rank, by a clock of its own: machines need not agree on the time.

    A note that never changed may be left over from an earlier run, so its rank does not count as live.

    Args:
        board: Where the notes are.
        rank: Whose own notes are live from the first on.
    """

    def __init__(self, board: Board, rank: int) -> None:
        self._board, self._rank = board, rank
        self._latest: dict[int, _Latest] = {}
        self._missed: set[int] = set()

    def listen(self, ranks: Iterable[int], now: float) -> None:
        """Read the notes of ranks, at a time in seconds.

        Raises:
            BoardError: The board cannot be reached.
        """
        for rank in ranks:
            self._hear(rank, self._board.read(rank), now)

    def _hear(self, rank: int, data: bytes | None, now: float) -> None:
        note = None if data is None else Note.from_bytes(data)
        if note is None or note.rank != rank:
            self._missed.add(rank)
            return
        before = self._latest.get(rank)
        if before is None:
            live = rank == self._rank or rank in self._missed
            self._latest[rank] = _Latest(note, now, live)
        elif (note.number, note.pid) != (before.note.number, before.note.pid):
            self._latest[rank] = _Latest(note, now, is_live=True)

    def notes(self, now: float) -> list[Note]:
        """The latest notes of live ranks, by rank, each with its age."""
        found = sorted(self._latest.items())
        return [
            replace(one.note, age_seconds=max(0.0, now - one.since))
            for _, one in found
            if one.is_live
        ]

    def note_of(self, rank: int, now: float) -> Note | None:
        """The latest note of one rank, if it is live."""
        return next((note for note in self.notes(now) if note.rank == rank), None)
