"""What limits an input pipeline on this machine, and what to change: gpu-aug tune."""

from bench.tune.tune import tune as tune
from bench.tune.tuning import Tuning as Tuning
