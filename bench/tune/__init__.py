"""gpu-aug tune: find the bottleneck of an input pipeline on this machine, and better settings."""

from bench.tune.result import Tuning as Tuning
from bench.tune.tune import tune as tune
