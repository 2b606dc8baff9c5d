"""Find the bottleneck of an input pipeline on this machine, and better settings, for `gpu-aug tune`."""

from bench.tune.result import Tuning as Tuning
from bench.tune.tune import tune as tune
