"""Beats: a rank leaves notes of itself, and the first rank that lives speaks of those that are late or silent."""

import os
from collections.abc import Callable
from dataclasses import replace

from dali_pipes.monitoring.ranks.board import Board, BoardError, StoreGoneError
from dali_pipes.monitoring.ranks.late import find_late
from dali_pipes.monitoring.ranks.peer_status import Heard
from dali_pipes.monitoring.ranks.rank_report import Note
from dali_pipes.monitoring.ranks.visible_warning import speak
from gpu_aug.compiled.clock import clock

_AGAIN_SECONDS = 600.0  # until the same is said again of a rank
_TIMES_LATE = 2  # judgements in a row, each of new notes

Said = dict[tuple[int, str], float]
"""When it was last said of a rank that it is late in a stage."""

_speaking: dict[tuple[str, int], list["Beats"]] = {}
"""For a board and a rank of this process the loops that are under way; the last one speaks."""


class Beats:
    """The notes of one loop.

    Args:
        board: Where they are left.
        rank: This rank.
        world_size: Number of ranks.
        every_seconds: How often a note is left.
        note: Makes one.
        said: What was said before, which is kept from loop to loop.
    """

    def __init__(
        self,
        board: Board,
        rank: int,
        world_size: int,
        every_seconds: float,
        note: Callable[[], Note],
        said: Said,
    ) -> None:
        self._board, self._note, self._said = board, note, said
        self._rank, self._world_size = rank, world_size
        self._silent_seconds = 4 * every_seconds + 2.0
        self._heard = Heard(board, rank)
        self._began = clock()
        self._times_late: dict[tuple[int, str], int] = {}
        self._numbers: dict[int, int] = {}
        self._silent: set[int] = set()
        self._has_given_up = False
        self._place = (board.name, rank)
        _speaking.setdefault(self._place, []).append(self)

    def beat(self, is_last: bool) -> None:
        """Leave a note, and speak of the others if no rank before this one lives."""
        speaks = _speaking.get(self._place, [self])[-1:] == [self]
        if is_last:
            _leave(self._place, self)
        if not speaks or self._has_given_up:
            return
        try:
            self._board.write(self._rank, self._note().to_bytes())
            if not is_last:
                self._listen(clock())
        except BoardError as error:
            self._has_given_up = True
            if not isinstance(error, StoreGoneError):
                speak(f"no heartbeat of rank {self._rank} any more: {error}")

    def others(self) -> list[Note]:
        """The notes of all other ranks, as they are now.

        Raises:
            BoardError: The board cannot be reached.
        """
        found = [read_note(self._board, rank) for rank in range(self._world_size)]
        return [note for note in found if note is not None and note.rank != self._rank]

    def _listen(self, now: float) -> None:
        if not self._is_first(now):
            return
        self._heard.listen(range(self._world_size), now)
        notes = self._heard.notes(now)
        self._speak_of_silence(notes)
        there = [note for note in notes if note.age_seconds < self._silent_seconds]
        self._speak_of_late([note for note in there if note.state != "over"], now)

    def _is_first(self, now: float) -> bool:
        """Whether all ranks before this one are silent, and so for long enough."""
        for rank in range(self._rank):
            self._heard.listen([rank], now)
            note = self._heard.note_of(rank, now)
            if note is not None and note.age_seconds < self._silent_seconds:
                return False
        return self._rank == 0 or now - self._began > self._silent_seconds

    def _speak_of_late(self, notes: list[Note], now: float) -> None:
        numbers = {note.rank: note.number for note in notes}
        if any(self._numbers.get(rank) == number for rank, number in numbers.items()):
            return  # wait until all have something new to say
        self._numbers = numbers
        found = {(late.rank, late.stage): late for late in find_late(notes)}
        self._times_late = {key: self._times_late.get(key, 0) + 1 for key in found}
        for key, late in found.items():
            again = now - self._said.get(key, -_AGAIN_SECONDS) >= _AGAIN_SECONDS
            if self._times_late[key] >= _TIMES_LATE and again:
                self._said[key] = now
                speak(late.text)

    def _speak_of_silence(self, notes: list[Note]) -> None:
        for note in notes:
            silent = note.age_seconds >= self._silent_seconds
            said = _silence(note, notes) if silent else ""
            if said and note.rank not in self._silent:
                self._silent.add(note.rank)
                speak(said)
            elif not silent and note.rank in self._silent:
                self._silent.discard(note.rank)
                speak(f"rank {note.rank} is heard again")


def read_note(board: Board, rank: int) -> Note | None:
    """The note that a rank left last, with its age by the clocks of the two machines."""
    data = board.read(rank)
    note = None if data is None else Note.from_bytes(data)
    return None if note is None else replace(note, age_seconds=note.age_by_clock())


def _leave(place: tuple[str, int], one: Beats) -> None:
    loops = _speaking.get(place, [])
    if one in loops:
        loops.remove(one)
    if not loops:
        _speaking.pop(place, None)


def _silence(note: Note, notes: list[Note]) -> str:
    """What is said of a rank that says nothing; "" if it has done its part."""
    who = f"rank {note.rank} ({note.host}, process {note.pid})"
    if note.state == "over":
        further = any(one.loop == note.loop and one.epoch > note.epoch for one in notes)
        return f"{who} has begun no loop since epoch {note.epoch}, other ranks have" * further
    at = f", waiting for {note.waits_for}" if note.waits_for else ""
    place = "the loader" if note.state == "loader" else "the training loop"
    return (
        f"{who} has said nothing for {note.age_seconds:.0f} s: its process has ended, or stands still; its last word "
        f"came from {place} after {note.steps} batches of epoch {note.epoch}{at}"
    )


os.register_at_fork(after_in_child=_speaking.clear)
