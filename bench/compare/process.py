"""Our side of a contestant: its process, the requests to it and its answers."""

import pickle
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import bench
from bench.baselines.peers.catalog import environment, python_of
from bench.baselines.peers.far import FarProcess, PeerError
from bench.baselines.peers.install import has_package, why_not
from bench.compare.contestants import Contestant
from bench.compare.task import Task, Unable
from bench.timing import Busy, Turn

_OPEN_SECONDS_MAX = 240.0  # conversion of the data and the first batch
_TURN_SECONDS_MORE = 60.0  # what was prepared meanwhile is taken before the turn begins

_START = """
import sys
sys.path.append(sys.argv[1])
from bench.compare.serve import main
if __name__ == "__main__":
    main()
"""


class ContestantProcess(FarProcess):
    """A contestant in a process of its own, so that its crash or hang ends nothing else and its CPU time is its own.

    Attributes:
        note: What a reader has to know to compare fairly; known after `open`.
        num_ahead: Batches that it prepares while it is not asked.
        looks: How busy the machine was in each of its turns.
    """

    def __init__(self, contestant: Contestant) -> None:
        """Start the process, which imports what it needs while others are opened.

        Raises:
            Unable: Its packages are not installed.
        """
        python = sys.executable
        if contestant.peer and not has_package(contestant.peer):
            if reason := why_not(contestant.peer):
                raise Unable(reason)
            python = str(python_of(environment(contestant.peer)))
        self.name, self.kind = contestant.name, contestant.kind
        self.note, self.num_ahead = "", 0
        self.looks: list[Busy] = []
        self._contestant = contestant
        root = str(Path(bench.__file__).parent.parent)
        super().__init__([python, "-c", _START, root], {"NO_ALBUMENTATIONS_UPDATE": "1"})

    def open(self, task: Task) -> None:
        """Start the pipeline and let it make a batch.

        Raises:
            Unable: It cannot carry out the task here.
            PeerError: It failed, ended or does not answer.
        """
        self._device = task.device
        path = self.folder / "task.pickle"
        path.write_bytes(pickle.dumps((self._contestant, task)))
        answer = self.ask({"do": "open", "task": str(path)}, _OPEN_SECONDS_MAX)
        self.note, self.num_ahead = answer["note"], answer["num_ahead"]

    def turn(self, seconds: float) -> Turn:
        """Let it take batches for a while, by its own clock.

        Raises:
            PeerError: It failed, ended or does not answer.
        """
        with Busy(self._device) as busy:
            answer = self.ask({"do": "turn", "seconds": seconds}, seconds + _TURN_SECONDS_MORE)
        self.looks.append(busy)
        return Turn(**answer)

    def ask(self, question: Mapping[str, object], seconds_max: float) -> dict[str, Any]:
        """Ask as `FarProcess` does, and raise the error that an answer holds."""
        answer = super().ask(question, seconds_max)
        if "error" in answer:
            raise (Unable if answer["unable"] else PeerError)(answer["error"])
        return answer
