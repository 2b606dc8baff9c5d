"""Our side of a peer: its process, the requests to it and its answers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import bench
from bench.baselines.peers.catalog import environment, module_name, python_of
from bench.baselines.peers.far import FarProcess, PeerError
from bench.baselines.peers.install import why_not
from bench.baselines.peers.spec import Spec
from bench.compare.contestant import STAGES, Footing, Kind, Made, Share, Unable
from bench.compare.timer import Slice

_OPEN_SECONDS_MAX = 300.0  # conversion of the data and the first batch
_TURN_SECONDS_MORE = 120.0

_START = """
import sys
sys.path.append(sys.argv[1])
from bench.baselines.peers.serve import main
if __name__ == "__main__":
    main(sys.argv[2])
"""


class PeerProcess:
    """A peer's pipeline in the peer's environment, in a process of its own."""

    kind: Kind = "baseline"

    def __init__(self, name: str, footing: Footing, command: Sequence[str] | None = None) -> None:
        """Check that there is an environment.

        Args:
            name: As in `bench.baselines.peers.catalog.peer_names`.
            footing: What everyone gets.
            command: Starts the far side; None takes the peer's interpreter and pipeline.

        Raises:
            Unable: The peer is not installed.
        """
        if command is None and (reason := why_not(name)):
            raise Unable(reason)
        self.name = name
        self.note = ""
        self.num_ahead = self.num_discard = 0
        self._footing = footing
        self._command = list(command) if command is not None else _command(name)
        self._far: FarProcess | None = None

    def open(self) -> None:
        """Start the process and its pipeline."""
        self._far = FarProcess(self._command, {"NO_ALBUMENTATIONS_UPDATE": "1"})
        spec, data = self._far.folder / "spec.json", self._far.folder / "data"
        data.mkdir()
        spec_of(self._footing, data).write(spec)
        answer = self._ask({"do": "open", "spec": str(spec)}, _OPEN_SECONDS_MAX)
        self.note = answer["note"]
        self.num_ahead = answer["num_ahead"]
        # What lies ready, and then the batches that the workers begin all at once.
        self.num_discard = self.num_ahead + self._footing.num_threads
        dtype = getattr(torch, answer["dtype"].removeprefix("torch."))
        self._made = Made(tuple(answer["shape"]), dtype, torch.device(answer["device"]))

    def made(self) -> Made:
        """The shape and type of its first batch."""
        return self._made

    def turn(self, seconds: float) -> Slice:
        """Let it take batches for a while, by its own clock."""
        question = {"do": "turn", "seconds": seconds, "discard": self.num_discard}
        answer = self._ask(question, seconds + _TURN_SECONDS_MORE)
        return Slice(answer["images"], answer["seconds"], answer["wait_seconds"])

    def share(self) -> Share:
        """Not known: all of its work is in its own process."""
        return dict.fromkeys(STAGES)

    def close(self) -> None:
        """End the process and its workers."""
        if self._far is not None:
            self._far.close()
            self._far = None

    def _ask(self, question: dict[str, object], seconds_max: float) -> dict[str, Any]:
        if self._far is None:
            raise RuntimeError(f"{self.name} is not open")
        answer = self._far.ask(question, seconds_max)
        if "error" not in answer:
            return answer
        if answer["unable"]:
            raise Unable(answer["error"])
        raise PeerError(answer["error"], answer["trace"])


def _command(name: str) -> list[str]:
    root = str(Path(bench.__file__).parent.parent)
    return [str(python_of(environment(name))), "-c", _START, root, module_name(name)]


def spec_of(footing: Footing, folder: Path) -> Spec:
    """The task for a peer with these shared settings; it may write into a folder."""
    return Spec(
        [str(path) for path in footing.files],
        footing.labels,
        footing.recipe,
        footing.batch_size,
        footing.num_threads,
        footing.dtype,
        footing.device,
        footing.seed,
        folder,
    )
