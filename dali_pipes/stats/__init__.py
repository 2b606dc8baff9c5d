"""What a loader did, stage by stage, and what its training loop waited for."""

from dali_pipes.stats.counts import STAGES, Stage
from dali_pipes.stats.parts import Queue, Remote, StageStats, Waits
from dali_pipes.stats.stats import Stats

__all__ = ["STAGES", "Queue", "Remote", "Stage", "StageStats", "Stats", "Waits"]
