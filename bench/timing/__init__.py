"""Time everything in this package: contestants run alternately in rounds, and ratios are computed within a round."""

from bench.timing.turns import (
    Measurement,
    Ratio,
    Turn,
    clock,
    measure_in_turns,
    one_thread,
    ratio,
    synchronise,
    take_turn,
)
from bench.timing.usage import Busy, cpu_seconds, peak_bytes

__all__ = [
    "Busy",
    "Measurement",
    "Ratio",
    "Turn",
    "clock",
    "cpu_seconds",
    "measure_in_turns",
    "one_thread",
    "peak_bytes",
    "ratio",
    "synchronise",
    "take_turn",
]
