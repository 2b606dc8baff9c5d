"""Send the heartbeats (reports) of a rank; the first live rank warns about late or silent ranks."""

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from dali_pipes.monitoring.ranks.background import warn_visibly
from dali_pipes.monitoring.ranks.board import Board, BoardError, StoreGoneError
from dali_pipes.monitoring.ranks.rank_report import RankReport
from dali_pipes.monitoring.ranks.rank_table import find_late, find_other_draws
from gpu_aug.compiled.clock import clock

_REPEAT_SECONDS = 600.0
"""Seconds between two warnings about the same late rank: one every few seconds would be noise."""

_TIMES_LATE = 2
"""How many comparisons in a row, each of new reports, must find a rank late before a warning. Saving a checkpoint makes
a rank late only once."""

Warned = dict[tuple[int, str], float]
"""Time of the last warning for each rank and stage; own rank and "draws": for seeds and weights that differ, once."""

_reporting: dict[tuple[str, int], list["HeartbeatSender"]] = {}
"""The running loops for each board and rank of this process; the last one sends the reports."""


class HeartbeatSender:
    """Sends the reports of one loop, and warns about other ranks.

    Args:
        board: Where the reports are written.
        rank: This rank.
        world_size: Count of ranks.
        every_seconds: Seconds between two reports.
        make_report: Returns a report of this rank.
        warned: Times of the warnings so far; all loops of a loader share this dictionary.
    """

    def __init__(
        self,
        board: Board,
        rank: int,
        world_size: int,
        every_seconds: float,
        make_report: Callable[[], RankReport],
        warned: Warned,
    ) -> None:
        self._board, self._make_report, self._warned = board, make_report, warned
        self._rank, self._world_size = rank, world_size
        # Four missing reports, plus time for a slow folder.
        self._silent_seconds = 4 * every_seconds + 2.0
        self._peers = PeerReports(board, rank)
        self._began = clock()
        self._times_late: dict[tuple[int, str], int] = {}
        self._numbers: dict[int, int] = {}
        self._silent: set[int] = set()
        self._has_failed = False
        self._loops = _reporting.setdefault((board.name, rank), [])
        self._loops.append(self)

    def send_report(self, is_last: bool) -> None:
        """Send a report of this rank; if it is the first live rank, warn about late or silent ranks, too."""
        is_latest = self._loops[-1:] == [self]
        if is_last and self in self._loops:
            self._loops.remove(self)
        if not is_latest or self._has_failed:
            return
        try:
            self._board.write(self._rank, self._make_report().to_bytes())
            if not is_last:
                self._look_at_peers(clock())
        except BoardError as error:
            self._has_failed = True
            if not isinstance(error, StoreGoneError):
                warn_visibly(f"no heartbeat of rank {self._rank} any more: {error}")

    def _look_at_peers(self, now: float) -> None:
        if not self._is_first(now):
            return
        self._peers.read(range(self._world_size), now)
        reports = self._peers.live(now)
        self._warn_of_silent(reports)
        running = [one for one in reports if not (self._is_silent(one) or one.state == "over")]
        self._warn_of_late(running, now)
        if (text := find_other_draws(running)) and (self._rank, "draws") not in self._warned:
            self._warned[self._rank, "draws"] = now
            warn_visibly(text)

    def _is_first(self, now: float) -> bool:
        """Return whether this is the first live rank: all lower ranks have been silent for long enough."""
        for rank in range(self._rank):
            # One at a time, so that most ranks read only the first report, not all N.
            self._peers.read([rank], now)
            if any(one.rank == rank and not self._is_silent(one) for one in self._peers.live(now)):
                return False
        return self._rank == 0 or now - self._began > self._silent_seconds

    def _is_silent(self, report: RankReport) -> bool:
        return report.age_seconds >= self._silent_seconds

    def _warn_of_late(self, reports: list[RankReport], now: float) -> None:
        numbers = {report.rank: report.number for report in reports}
        if any(self._numbers.get(rank) == number for rank, number in numbers.items()):
            return  # wait until all ranks have a new report
        self._numbers = numbers
        found = {(late.rank, late.stage): late for late in find_late(reports)}
        self._times_late = {key: self._times_late.get(key, 0) + 1 for key in found}
        for key, late in found.items():
            is_due = now - self._warned.get(key, -_REPEAT_SECONDS) >= _REPEAT_SECONDS
            if self._times_late[key] >= _TIMES_LATE and is_due:
                self._warned[key] = now
                warn_visibly(late.text)

    def _warn_of_silent(self, reports: list[RankReport]) -> None:
        for report in reports:
            is_known = report.rank in self._silent
            text = _describe_silence(report, reports) if self._is_silent(report) else ""
            if text and not is_known:
                self._silent.add(report.rank)
                warn_visibly(text)
            elif is_known and not self._is_silent(report):
                self._silent.discard(report.rank)
                warn_visibly(f"rank {report.rank} reports again")


@dataclass(slots=True)
class _Latest:
    report: RankReport
    since: float
    is_live: bool


class PeerReports:
    """Keeps the latest report of each rank, with ages by this rank's clock: clocks of machines may differ.

    A report that never changed may come from an earlier run, so its rank does not count as live.

    Args:
        board: The board that holds the reports.
        rank: This rank; its own reports count as live from the first on.
    """

    def __init__(self, board: Board, rank: int) -> None:
        self._board = board
        self._latest: dict[int, _Latest] = {}
        self._missed = {rank}  # ranks whose next report counts as new

    def read(self, ranks: Iterable[int], now: float) -> None:
        """Read the reports of ranks; `now` is the current time in seconds.

        Raises:
            BoardError: The board cannot be reached.
        """
        for rank in ranks:
            report = _read(self._board, rank)
            before = self._latest.get(rank)
            if report is None or report.rank != rank:
                self._missed.add(rank)
            elif before is None:
                self._latest[rank] = _Latest(report, now, rank in self._missed)
            elif (report.number, report.pid) != (before.report.number, before.report.pid):
                self._latest[rank] = _Latest(report, now, is_live=True)

    def live(self, now: float) -> list[RankReport]:
        """Return the latest reports of live ranks, ordered by rank, with their ages."""
        return [
            replace(latest.report, age_seconds=max(0.0, now - latest.since))
            for _, latest in sorted(self._latest.items())
            if latest.is_live
        ]


def read_others(board: Board, rank: int, world_size: int) -> list[RankReport]:
    """Return the latest reports of all other ranks, with ages computed from the clocks of both machines.

    Raises:
        BoardError: The board cannot be reached.
    """
    reports = [_read(board, other) for other in range(world_size) if other != rank]
    now = time.time()  # the ages are right if the clocks of the machines agree
    return [replace(one, age_seconds=max(0.0, now - one.at)) for one in reports if one is not None]


def _read(board: Board, rank: int) -> RankReport | None:
    data = board.read(rank)
    return None if data is None else RankReport.from_bytes(data)


def _describe_silence(report: RankReport, reports: list[RankReport]) -> str:
    """Return a sentence about a silent rank; "" if it has finished its steps."""
    name = f"rank {report.rank} ({report.host}, process {report.pid})"
    if report.state == "over":
        is_behind = any(one.loop == report.loop and one.epoch > report.epoch for one in reports)
        return f"{name} has begun no loop since epoch {report.epoch}, other ranks have" * is_behind
    at = f", waiting for {report.waits_for}" if report.waits_for else ""
    place = "the loader" if report.state == "loader" else "the training loop"
    return (
        f"{name} has not reported for {report.age_seconds:.0f} s: its process has ended or hangs; its last report "
        f"came from {place} after {report.steps} batches of epoch {report.epoch}{at}"
    )


os.register_at_fork(after_in_child=_reporting.clear)  # a fork copies no threads
