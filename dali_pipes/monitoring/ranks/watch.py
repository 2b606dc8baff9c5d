"""Watch: looks after the loops of a loader from a thread beside them."""

import os
import zlib
from contextlib import ExitStack
from pathlib import Path

from dali_pipes.arguments.process_rank import Process, found_process
from dali_pipes.monitoring.ranks.beats import Said, read_note
from dali_pipes.monitoring.ranks.board import BoardError, FolderBoard, group_board
from dali_pipes.monitoring.ranks.heartbeat import Heartbeat
from dali_pipes.monitoring.ranks.loop_watch import LoopWatch, Place
from dali_pipes.monitoring.ranks.pulse import Pulse
from dali_pipes.monitoring.ranks.rank_report import Note
from dali_pipes.monitoring.ranks.table import RankTable
from dali_pipes.monitoring.recorder import Recorder


class Watch:
    """Looks after the loops of a loader.

    Args:
        heartbeat: When to speak; None is never.
        recorder: Knows what the stages do.
        data: Words that are the same for the same data on all ranks, and cheap.
    """

    def __init__(self, heartbeat: Heartbeat | None, recorder: Recorder, data: str) -> None:
        self._heartbeat, self._recorder, self._data = heartbeat, recorder, data
        self._loop = f"{zlib.crc32(data.encode('utf-8', 'surrogateescape')):08x}"
        self._said: Said = {}
        self._latest: LoopWatch | None = None

    def __reduce__(self) -> tuple[type["Watch"], tuple[Heartbeat | None, Recorder, str]]:
        """In another process there was no loop yet."""
        return Watch, (self._heartbeat, self._recorder, self._data)

    def begin(self, process: Process, epoch: int, ending: ExitStack) -> Pulse:
        """Look after a loop until `ending` is closed."""
        pulse = Pulse(epoch)
        if self._heartbeat is None:
            return pulse
        place, _ = _place_of(self._heartbeat, process)
        rank = process.rank if place is None else place[1]
        watch = LoopWatch(
            self._heartbeat, pulse, self._recorder, rank, self._loop, place, self._said
        )
        self._latest = watch
        ending.callback(watch.end)
        return pulse

    def ranks(self, process: Process) -> RankTable:
        """Where all ranks stand."""
        place, why = _place_of(self._heartbeat, process)
        rank = process.rank if place is None else place[1]
        own = Note(rank=rank, state="over") if self._latest is None else self._latest.note()
        if place is None:
            alone = process.world_size == 1
            return RankTable([own], "" if alone else f"the others are not known: {why}")
        board, _, world_size = place
        try:
            found = [read_note(board, one) for one in range(world_size) if one != rank]
        except BoardError as error:
            return RankTable([own], f"the others are not known: {error}")
        others = [note for note in found if note is not None]
        missing = world_size - 1 - len(others)
        said = f"{missing} of {world_size} ranks have said nothing yet" if missing else ""
        return RankTable(sorted([own, *others], key=lambda note: note.rank), said)


def _place_of(heartbeat: Heartbeat | None, process: Process) -> tuple[Place | None, str]:
    """Where this process leaves its notes; None where there is no such place, and why."""
    if heartbeat is None:
        return None, "the loader has heartbeat=None"
    if heartbeat.folder is not None:
        where = found_process() or process
        folder = Path(os.fsdecode(heartbeat.folder))
        return (FolderBoard(folder), where.rank, where.world_size), ""
    try:
        return group_board(), "there is neither a process group nor a folder"
    except BoardError as error:
        return None, str(error)
