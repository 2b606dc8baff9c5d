"""Measure a loader: the work of each stage, and which stages the training loop waits for."""

from dali_pipes.monitoring.counts import STAGES, Stage
from dali_pipes.monitoring.stage_stats import Queue, Remote, StageStats, Waits
from dali_pipes.monitoring.stats import Stats

__all__ = ["STAGES", "Queue", "Remote", "Stage", "StageStats", "Stats", "Waits"]
