"""LoopWatch: what the thread beside a loop does: count what it waits, look at it, and speak of a stall."""

import os
import socket
import time
from collections.abc import Callable

from dali_pipes.monitoring.ranks.beats import Beats, Said
from dali_pipes.monitoring.ranks.board import Board
from dali_pipes.monitoring.ranks.daemon import Daemon
from dali_pipes.monitoring.ranks.heartbeat import Heartbeat
from dali_pipes.monitoring.ranks.pulse import Pulse
from dali_pipes.monitoring.ranks.rank_report import Note
from dali_pipes.monitoring.ranks.stall import Stall, brief
from dali_pipes.monitoring.ranks.timeout import within
from dali_pipes.monitoring.ranks.visible_warning import speak
from dali_pipes.monitoring.ranks.window import Window
from dali_pipes.monitoring.recorder import Recorder
from gpu_aug.compiled.clock import clock

_LONGEST_TICK_SECONDS = 1.0
_ANSWER_SECONDS = 3.0  # of ranks and helper processes that are asked about a stall

Place = tuple[Board, int, int]
"""A board, the rank of this process on it, and how many ranks there are."""


class LoopWatch:
    """Looks after one loop, in a thread that ends with it.

    Notes are left by a second thread, which begins with the first note: what keeps them may hang itself.

    Args:
        heartbeat: When to speak.
        pulse: The loop.
        recorder: Knows what its stages do.
        rank: This rank.
        loop: See `Note`.
        place: Where to leave notes; None for nowhere.
        said: See `Beats`.
    """

    def __init__(
        self,
        heartbeat: Heartbeat,
        pulse: Pulse,
        recorder: Recorder,
        rank: int,
        loop: str,
        place: Place | None,
        said: Said,
    ) -> None:
        self.pulse, self._recorder, self._heartbeat = pulse, recorder, heartbeat
        self._rank, self._loop, self._place = rank, loop, place
        self._said = said
        self._window = Window(pulse, recorder)
        self._waits_for = ""
        self._number = 0
        self._beats: Beats | None = None
        self._beating: Daemon | None = None
        self._latest = self._began = self._looked = clock()
        self._waited, self._waiting_for, self._is_stalled = 0.0, 0, False
        self._calls: dict[str, int] = {}
        self._calls_before: dict[str, int] = {}
        self._moved = self._began
        every = min(heartbeat.every_seconds / 2, heartbeat.stall_seconds / 4)
        self._watching = Daemon("gpu-aug-watch", min(_LONGEST_TICK_SECONDS, every), self._tick)

    def end(self) -> None:
        """End the threads; wait for them, but not for long."""
        self.pulse.end()
        daemons = [one for one in (self._watching, self._beating) if one is not None]
        for one in daemons:
            one.end()
        for one in daemons:
            one.join()

    def note(self) -> Note:
        """What this rank says of itself now."""
        now, pulse = clock(), self.pulse
        self._number += 1
        rates = self._window.rates()
        return Note(
            rank=self._rank,
            host=socket.gethostname(),
            pid=os.getpid(),
            number=self._number,
            at=time.time(),
            loop=self._loop,
            epoch=pulse.epoch,
            steps=pulse.steps,
            state=pulse.state,
            state_seconds=pulse.state_seconds(now),
            waits_for=self._waits_for if pulse.state == "loader" else "",
            bad_samples=pulse.bad_samples,
            **rates._asdict(),
        )

    def _tick(self, is_last: bool) -> None:
        if is_last:
            self._count(0.0)
            return
        now = clock()
        # A process that was stopped for a while has not waited for its loader: a tick counts as one at most.
        elapsed, self._latest = min(now - self._latest, 2 * _LONGEST_TICK_SECONDS), now
        running = self._recorder.running()
        self._window.look_at_files(now, running)
        if now - self._looked >= self._heartbeat.every_seconds / 2:
            self._looked = now
            self._window.look(now)
        self._start_beats(now)
        self._count(elapsed)
        long = self._waited >= min(self._heartbeat.every_seconds, self._heartbeat.stall_seconds / 2)
        self._waits_for = brief(running) if long else ""
        if self._waited >= self._heartbeat.stall_seconds and not self._is_stalled:
            self._is_stalled = True
            speak(self._stall())

    def _start_beats(self, now: float) -> None:
        every = self._heartbeat.every_seconds
        if self._place is None or self._beating is not None or now - self._began < every:
            return
        board, rank, world_size = self._place
        self._beats = Beats(board, rank, world_size, every, self.note, self._said)
        self._beating = Daemon("gpu-aug-watch-beats", every, self._beats.beat)

    def _count(self, elapsed: float) -> None:
        """Count what was waited for the present batch."""
        pulse, calls = self.pulse, self._num_calls()
        if calls != self._calls:
            self._calls, self._moved = calls, self._latest
        if pulse.state == "loader" and pulse.steps == self._waiting_for and self._waited:
            self._waited += elapsed
            return
        if self._is_stalled:
            came = pulse.steps > self._waiting_for
            how = "has got its batch, and goes on" if came else "has ended its loop without it"
            speak(f"{self._name()} {how}, after {self._waited:.0f} s")
        self._is_stalled = False
        self._waiting_for = pulse.steps
        self._waited = min(pulse.state_seconds(clock()), elapsed) if pulse.state == "loader" else 0
        self._calls_before = calls

    def _stall(self) -> str:
        pulse, beats, calls = self.pulse, self._beats, self._num_calls()
        nobody: list[Note] = []
        others = None if beats is None else within(_ANSWER_SECONDS, beats.others, nobody)
        stall = Stall(
            self._name(),
            pulse.epoch,
            pulse.steps,
            self._waited,
            clock() - self._moved,
            {stage: count - self._calls_before.get(stage, 0) for stage, count in calls.items()},
            pulse.thread,
            others,
        )
        account: Callable[[], str] = lambda: pulse.account(_ANSWER_SECONDS)  # noqa: E731
        return stall.text(self._recorder, within(_ANSWER_SECONDS + 1, account, ""))

    def _num_calls(self) -> dict[str, int]:
        totals = self._recorder.totals()
        return {str(stage): one.calls for stage, one in totals.stages.items()}

    def _name(self) -> str:
        alone = self._place is None and self._rank == 0
        who = "the training loop" if alone else f"rank {self._rank}"
        return f"{who} ({socket.gethostname()}, process {os.getpid()})"
