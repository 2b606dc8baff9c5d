"""One row of a batch made once more, with its draws and the picture after each operation."""

from dali_pipes.replay.replay import replay
from dali_pipes.replay.result import Replay, Step

__all__ = ["Replay", "Step", "replay"]
