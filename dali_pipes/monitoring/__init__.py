"""What a loader did, stage by stage, and what its training loop waited for."""

from dali_pipes.monitoring.counts import STAGES, Stage
from dali_pipes.monitoring.parts import Queue, Remote, StageStats, Waits
from dali_pipes.monitoring.stats import Stats

__all__ = ["STAGES", "Queue", "Remote", "Stage", "StageStats", "Stats", "Waits"]
