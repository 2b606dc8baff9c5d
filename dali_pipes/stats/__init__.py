"""What a loader did, stage by stage, and what its training loop waited for."""

from dali_pipes.stats.counts import STAGES, Stage
from dali_pipes.stats.stats import Queue, StageStats, Stats

__all__ = ["STAGES", "Queue", "Stage", "StageStats", "Stats"]
