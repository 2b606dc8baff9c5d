"""Start the process of a contestant, send requests to it, and receive its answers."""

import os
import pickle
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import bench
from bench.baselines.peers.catalog import (
    FFMPEG,
    PEERS,
    environment,
    has_package,
    python_of,
    why_not,
)
from bench.baselines.peers.far import FarProcess, PeerError
from bench.compare.contract import Contestant, Unable
from bench.timing import Turn

_OPEN_SECONDS_MAX = 240.0  # for conversion of the data and the first batch
# In addition to the turn: batches that were prepared before it are taken first.
_TURN_SECONDS_MORE = 60.0

# A peer that shares no packages must not see those beside bench either, so it gets a folder with a link to bench alone.
_START = """
import os, sys
root, alone = sys.argv[1:]
if alone:
    os.symlink(os.path.join(root, "bench"), os.path.join(os.environ["TMPDIR"], "bench"))
    root = os.environ["TMPDIR"]
sys.path.append(root)
from bench.compare.serve import main
if __name__ == "__main__":
    main()
"""


class ContestantProcess(FarProcess):
    """A contestant in its own process, so that a crash or hang affects nothing else, and its CPU time is separate.

    Attributes:
        note: A note that a reader needs for a fair comparison; known after `open`.
        num_ahead: How many batches the contestant prepares without being asked.
    """

    def __init__(self, contestant: Contestant) -> None:
        """Start the process; its imports run while other contestants are opened.

        Raises:
            Unable: The packages of the contestant are not installed.
        """
        python, alone = sys.executable, ""
        variables = {"NO_ALBUMENTATIONS_UPDATE": "1"}
        if contestant.peer and not has_package(contestant.peer):
            if reason := why_not(contestant.peer):
                raise Unable(reason)
            python = str(python_of(environment(contestant.peer)))
            alone = "alone" if PEERS[contestant.peer].alone else ""
            libraries = str(environment(contestant.peer) / FFMPEG)
            if alone and Path(libraries).is_dir():
                given = os.environ.get("LD_LIBRARY_PATH")
                variables["LD_LIBRARY_PATH"] = f"{libraries}:{given}" if given else libraries
        self.name, self.kind = contestant.name, contestant.kind
        self.note, self.num_ahead = "", 0
        self._contestant = contestant
        root = str(Path(bench.__file__).parent.parent)
        super().__init__([python, "-c", _START, root, alone], variables)

    def open(self, task: Any) -> None:
        """Start the pipeline and let it make one batch.

        Args:
            task: A `Task`, or another object that can be pickled and has a device, a plan and `check_batch`.

        Raises:
            Unable: The contestant cannot run the task on this machine.
            PeerError: The process failed, ended or does not answer.
        """
        path = self.folder / "task.pickle"
        path.write_bytes(pickle.dumps((self._contestant, task)))
        answer = self.ask({"do": "open", "task": str(path)}, _OPEN_SECONDS_MAX)
        self.note, self.num_ahead = answer["note"], answer["num_ahead"]

    def turn(self, seconds: float) -> Turn:
        """Let the contestant take batches for some seconds by its own clock (a turn), and return what was measured.

        Raises:
            PeerError: The process failed, ended or does not answer.
        """
        question = {"do": "turn", "seconds": seconds}
        return Turn(**self.ask(question, seconds + _TURN_SECONDS_MORE))

    def ask(self, question: Mapping[str, object], seconds_max: float) -> dict[str, Any]:
        """Send a request and return the answer; raise the error if the answer has one."""
        answer = super().ask(question, seconds_max)
        if "error" in answer:
            raise (Unable if answer["unable"] else PeerError)(answer["error"])
        return answer
