"""Watch the loops of a loader in threads that report a loop without a batch, and send heartbeats."""

import os
import socket
import time
import zlib
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from dali_pipes.arguments.process_rank import Process, found_process
from dali_pipes.errors import first_of
from dali_pipes.monitoring.ranks.background import (
    RepeatingThread,
    call_with_timeout,
    warn_visibly,
)
from dali_pipes.monitoring.ranks.board import Board, BoardError, FolderBoard, group_board
from dali_pipes.monitoring.ranks.heartbeat_options import Heartbeat
from dali_pipes.monitoring.ranks.heartbeat_sender import HeartbeatSender, Warned, read_others
from dali_pipes.monitoring.ranks.pulse import Pulse, Window
from dali_pipes.monitoring.ranks.rank_report import RankReport
from dali_pipes.monitoring.ranks.rank_table import RankTable
from dali_pipes.monitoring.ranks.stall import describe_longest, describe_threads
from dali_pipes.monitoring.recorder import Recorder
from gpu_aug.compiled.clock import clock

_MAX_TICK_SECONDS = 1.0
"""Longest interval between two checks, so that the duration of a stall is exact to a second."""

_ANSWER_SECONDS = 3.0
"""Time for other ranks and helper processes to answer; after that a stall is reported without them."""

_MAX_NAMED = 8
"""Largest number of ranks that a sentence lists."""

Membership = tuple[Board, int, int]
"""A board, the rank of this process on it, and the number of ranks."""


class Watch:
    """Monitors the loops of a loader.

    Args:
        heartbeat: Intervals of reports and stall reports; None switches both off.
        recorder: Records the work of the stages.
        data: A text that identifies the data: it is equal on all ranks that load the same data.
        draws: A text that must be equal on all of these ranks; see `RankReport`.
    """

    def __init__(
        self, heartbeat: Heartbeat | None, recorder: Recorder, data: str, draws: str
    ) -> None:
        self._heartbeat, self._recorder, self._data, self._draws = heartbeat, recorder, data, draws
        self._loop = f"{zlib.crc32(data.encode('utf-8', 'surrogateescape')):08x}"
        self._warned: Warned = {}
        self._latest: LoopWatch | None = None

    def __reduce__(self) -> tuple[type["Watch"], tuple[Heartbeat | None, Recorder, str, str]]:
        """Pickle without loops, which stay in their process."""
        return Watch, (self._heartbeat, self._recorder, self._data, self._draws)

    def begin(self, process: Process, epoch: int, ending: ExitStack) -> Pulse:
        """Start monitoring a loop, and return the Pulse to which the loop reports its progress.

        Args:
            process: Rank and world size.
            epoch: The epoch of the loop.
            ending: Closing it ends the monitoring.
        """
        pulse = Pulse(epoch)
        if self._heartbeat is not None:
            membership, rank, _ = _find_membership(self._heartbeat, process)
            self._latest = LoopWatch(
                self._heartbeat,
                pulse,
                self._recorder,
                # A rank that goes through all samples by itself may have a seed of its own.
                (self._loop, self._draws if process.world_size > 1 else ""),
                (membership, rank),
                self._warned,
            )
            ending.callback(self._latest.end)
        return pulse

    def ranks(self, process: Process) -> RankTable:
        """Return the progress of all ranks."""
        membership, rank, why = _find_membership(self._heartbeat, process)
        own = RankReport(rank=rank, state="over") if self._latest is None else self._latest.report()
        if membership is None:
            is_alone = process.world_size == 1
            return RankTable([own], "" if is_alone else f"other ranks are not known: {why}")
        board, _, world_size = membership
        try:
            others = read_others(board, rank, world_size)
        except BoardError as error:
            return RankTable([own], f"other ranks are not known: {error}")
        num_missing = world_size - 1 - len(others)
        missing = (
            f"{num_missing} of {world_size} ranks have not reported yet" if num_missing else ""
        )
        return RankTable(sorted([own, *others], key=lambda report: report.rank), missing)


def _find_membership(
    heartbeat: Heartbeat | None, process: Process
) -> tuple[Membership | None, int, str]:
    """Return the board with rank and world size (None without a board), this rank, and why the board is missing."""
    membership: Membership | None = None
    why = ""
    if heartbeat is None:
        why = "the loader has heartbeat=None"
    elif heartbeat.folder is not None:
        here = found_process() or process
        folder = FolderBoard(Path(os.fsdecode(heartbeat.folder)))
        membership = (folder, here.rank, here.world_size)
    else:
        try:
            membership = group_board()
            why = "there is neither a process group with a store nor a folder"
        except BoardError as error:
            why = str(error)
    return membership, process.rank if membership is None else membership[1], why


class LoopWatch:
    """Monitors one loop, in a thread that ends with it.

    A second thread sends the rank's reports, because a folder or a store may hang. It starts with the first report.

    Args:
        heartbeat: Intervals of reports and stall reports.
        pulse: The progress of the loop.
        recorder: Records the work of the loop's stages.
        loop: The texts `loop` and `draws` of `RankReport`.
        membership: The board with rank and world size, or None; and this rank.
        warned: Times of the warnings so far; see `HeartbeatSender`.
    """

    def __init__(
        self,
        heartbeat: Heartbeat,
        pulse: Pulse,
        recorder: Recorder,
        loop: tuple[str, str],
        membership: tuple[Membership | None, int],
        warned: Warned,
    ) -> None:
        self.pulse, self._recorder, self._heartbeat = pulse, recorder, heartbeat
        self._warned = warned
        self._loop, self._draws = loop
        self._membership, self._rank = membership
        self._window = Window(pulse, recorder)
        self._waits_for = ""
        self._number = 0
        self._peers: HeartbeatSender | None = None
        self._latest = self._began = self._looked = self._moved = clock()
        self._waited, self._waiting_for, self._is_stalled = 0.0, 0, False
        self._calls = self._calls_before = Counter[str]()
        every = min(heartbeat.every_seconds / 2, heartbeat.stall_seconds / 4, _MAX_TICK_SECONDS)
        self._threads: list[RepeatingThread] = []
        self._threads.append(RepeatingThread("gpu-aug-watch", every, self._tick))

    def end(self) -> None:
        """End the threads, and wait a limited time for them."""
        self.pulse.end()
        # Iterates by reference: the first thread may still add the second one while it ends.
        for thread in self._threads:
            thread.end()
            thread.join()

    def report(self) -> RankReport:
        """Return a new report of this rank."""
        now, pulse = clock(), self.pulse
        self._number += 1
        return RankReport(
            rank=self._rank,
            host=socket.gethostname(),
            pid=os.getpid(),
            number=self._number,
            at=time.time(),
            loop=self._loop,
            draws=self._draws,
            epoch=pulse.epoch,
            steps=pulse.steps,
            state=pulse.state,
            state_seconds=pulse.state_seconds(now),
            waits_for=self._waits_for if pulse.state == "loader" else "",
            bad_samples=pulse.bad_samples,
            **self._window.rates(),
        )

    def _tick(self, is_last: bool) -> None:
        if is_last:
            self._count_waiting(0.0)
            return
        now, heartbeat = clock(), self._heartbeat
        # While a process is suspended it does not wait for its loader, so a tick counts at most its normal length.
        elapsed, self._latest = min(now - self._latest, 2 * _MAX_TICK_SECONDS), now
        running = self._recorder.running()
        self._window.look_at_files(now, running)
        if now - self._looked >= heartbeat.every_seconds / 2:
            self._looked = now
            self._window.look(now)
        self._start_reports(now)
        self._count_waiting(elapsed)
        is_long = self._waited >= min(heartbeat.every_seconds, heartbeat.stall_seconds / 2)
        self._waits_for = describe_longest(running) if is_long else ""
        if self._waited >= heartbeat.stall_seconds and not self._is_stalled:
            self._is_stalled = True
            warn_visibly(self._describe_stall())

    def _start_reports(self, now: float) -> None:
        every = self._heartbeat.every_seconds
        if self._membership is None or self._peers is not None or now - self._began < every:
            return
        board, rank, world_size = self._membership
        self._peers = HeartbeatSender(board, rank, world_size, every, self.report, self._warned)
        self._threads.append(RepeatingThread("gpu-aug-watch-beats", every, self._peers.send_report))

    def _count_waiting(self, elapsed: float) -> None:
        """Add the seconds that the loop has waited for the present batch."""
        pulse, calls = self.pulse, self._num_calls()
        if calls != self._calls:
            self._calls, self._moved = calls, self._latest
        if pulse.state == "loader" and pulse.steps == self._waiting_for and self._waited:
            self._waited += elapsed
            return
        if self._is_stalled:
            came = pulse.steps > self._waiting_for
            how = "has got its batch, and goes on" if came else "has ended its loop without it"
            warn_visibly(f"{self._name()} {how}, after {self._waited:.0f} s")
        self._is_stalled = False
        self._waiting_for = pulse.steps
        self._waited = min(pulse.state_seconds(clock()), elapsed) if pulse.state == "loader" else 0
        self._calls_before = calls

    def _describe_stall(self) -> str:
        """Return the report of a loop that gets no batch: the work of its threads, and the progress of other ranks."""
        pulse, membership = self.pulse, self._membership
        longest = describe_longest(self._recorder.running())
        at = f" (longest at work: {longest})" if longest else ""
        parts = [
            f"{self._name()} has waited {self._waited:.0f} s for batch {pulse.steps} of epoch {pulse.epoch}{at}; "
            f"{self._progress()}"
        ]
        if membership is not None and self._peers is not None:
            unknown: list[RankReport] = []
            others = call_with_timeout(_ANSWER_SECONDS, lambda: read_others(*membership), unknown)
            parts.append(_describe_others(others, pulse.steps))
        parts.append(describe_threads(self._recorder, pulse.thread))
        # One more second, so that the answer of a helper process arrives in time.
        account = call_with_timeout(_ANSWER_SECONDS + 1, lambda: pulse.account(_ANSWER_SECONDS), "")
        return "\n".join(filter(None, [*parts, account]))

    def _progress(self) -> str:
        still_seconds = clock() - self._moved
        if still_seconds >= self._waited / 2:
            return f"nothing has moved for {still_seconds:.0f} s"
        calls = self._num_calls() - self._calls_before
        done = [f"{count} of {stage}" for stage, count in calls.items()]
        return f"it goes on, slowly: calls that have ended are {', '.join(done)}"

    def _num_calls(self) -> Counter[str]:
        totals = self._recorder.totals()
        return Counter({stage: one.calls for stage, one in totals.stages.items()})

    def _name(self) -> str:
        is_alone = self._membership is None and self._rank == 0
        name = "the training loop" if is_alone else f"rank {self._rank}"
        return f"{name} ({socket.gethostname()}, process {os.getpid()})"


def _describe_others(reports: list[RankReport], step: int) -> str:
    """Return which ranks wait for this one, and which wait for their own loaders."""
    past = [one for one in reports if one.state == "training loop" and one.steps > step]
    waiting = [one for one in reports if one.state == "loader"]
    groups = {
        "past this batch and in the training loop, where a collective would wait for this rank": past,
        "waiting for a loader of their own": waiting,
        "elsewhere": [one for one in reports if one not in past and one not in waiting],
    }
    places = [f"{place}: {_name_ranks(group)}" for place, group in groups.items() if group]
    return f"The other ranks are {'; '.join(places) or 'not heard of'}"


def _name_ranks(reports: list[RankReport]) -> str:
    named = [
        f"rank {report.rank} (for {report.state_seconds + report.age_seconds:.0f} s"
        f"{f', at {report.waits_for}' if report.waits_for else ''})"
        for report in reports
    ]
    return first_of(named, _MAX_NAMED)
