"""Window: the latest half minute of a loop, in rates and shares."""

from collections import Counter, deque
from collections.abc import Mapping
from typing import NamedTuple

from dali_pipes.monitoring.counts import Counts
from dali_pipes.monitoring.ranks.pulse import Pulse
from dali_pipes.monitoring.ranks.threads_now import file_at, loader_threads
from dali_pipes.monitoring.recorder import Recorder, Running

_SECONDS = 30.0
_FEWEST_HITS, _MOST_OF = 3, 0.5  # of the looks at threads that read, to name a file


class _Look(NamedTuple):
    """Sums at a time."""

    at: float
    samples: int
    wait_seconds: float
    stages: Mapping[str, float]
    totals: Counts


class Rates(NamedTuple):
    """What the window holds; see `dali_pipes.monitoring.ranks.rank_report.Note`."""

    window_seconds: float
    samples: int
    wait_seconds: float
    stages: dict[str, float]
    core_shares: dict[str, float]
    whole_images: dict[str, int]
    file: str


class Window:
    """Looks at a loop from time to time, and keeps what is needed for its latest half minute.

    Args:
        pulse: The loop.
        recorder: Knows what its stages did.
    """

    def __init__(self, pulse: Pulse, recorder: Recorder) -> None:
        self._pulse, self._recorder = pulse, recorder
        self._looks: deque[_Look] = deque()
        self._files: deque[tuple[float, str]] = deque()

    def look(self, now: float) -> None:
        """Take the sums of this moment, by `clock`; nothing before the first batch."""
        if self._pulse.first is None:
            return
        while len(self._looks) > 1 and self._looks[1].at <= now - _SECONDS:
            self._looks.popleft()
        pulse, recorder = self._pulse, self._recorder
        busy = {str(stage): seconds for stage, seconds in recorder.busy().seconds.items()}
        self._looks.append(
            _Look(now, pulse.samples, pulse.wait_seconds(now), busy, recorder.totals())
        )

    def look_at_files(self, now: float, running: list[Running]) -> None:
        """Note which files are being read at this moment."""
        reading = {one.ident for one in running if one.stage == "read"}
        for thread in loader_threads():
            reads = thread.ident in reading or (reading and "gpu-aug-" in thread.name)
            if reads and (file := file_at(thread.frame).file):
                self._files.append((now, file))
        while self._files and self._files[0][0] < now - _SECONDS:
            self._files.popleft()

    def rates(self) -> Rates:
        """What there is between the oldest and the latest look."""
        if len(self._looks) < 2:
            return Rates(0.0, 0, 0.0, {}, {}, {}, "")
        old, new = self._looks[0], self._looks[-1]
        samples, counts = new.samples - old.samples, new.totals.minus(old.totals)
        stages = {
            stage: max(0.0, seconds - old.stages.get(stage, 0.0)) / samples
            for stage, seconds in new.stages.items()
            if samples
        }
        shares = {
            str(stage): min(1.0, one.cpu_seconds / one.seconds)
            for stage, one in counts.stages.items()
            if one.seconds > 0
        }
        waited = min(max(0.0, new.wait_seconds - old.wait_seconds), new.at - old.at)
        whole = dict(counts.whole_images)
        return Rates(new.at - old.at, samples, waited, stages, shares, whole, self._file())

    def _file(self) -> str:
        """The file at which reading was found most often, if that says anything."""
        files = Counter(file for _, file in self._files)
        [(file, hits)] = files.most_common(1) or [("", 0)]
        return file if hits >= max(_FEWEST_HITS, _MOST_OF * files.total()) else ""
