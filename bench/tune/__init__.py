"""What limits an input pipeline on this machine, and what to change: gpu-aug tune."""

from bench.tune.result import Tuning as Tuning
from bench.tune.tune import tune as tune
