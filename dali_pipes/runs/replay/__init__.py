"""One row of a batch made once more, with its draws and the picture after each operation."""

from dali_pipes.runs.replay.replay import replay
from dali_pipes.runs.replay.result import Replay, Step

__all__ = ["Replay", "Step", "replay"]
