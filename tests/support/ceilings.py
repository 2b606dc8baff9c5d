"""Ceilings that were never measured, for what follows from them."""

from typing import Any

from bench.compare.timer import Rate
from bench.micro.turns import Turns
from bench.tune.ceilings import Ceilings, Setting
from bench.tune.ceilings_cores import Cores
from bench.tune.facts import Facts, Percentiles
from bench.tune.facts_place import Place
from bench.tune.stages import StageCost
from bench.tune.storage import ReadRate, StorageCeiling, Temperature

SAMPLE_BYTES = 100_000.0


def cost(name: str, milliseconds: float, **more: Any) -> StageCost:
    """A stage that takes so many milliseconds of a core per image, on any number of threads."""
    rate = Rate((1e3 / milliseconds,))
    return StageCost(name, Turns((milliseconds / 1e3,)), rate, rate, **more)


def reading(
    temperature: Temperature, rates: dict[int, float], *, cpu_ms: float = 0.0
) -> list[ReadRate]:
    """Samples per second by the number of fetches in flight."""
    return [
        ReadRate(temperature, 32, in_flight, Rate((rate,)), SAMPLE_BYTES, cpu_ms / 1e3)
        for in_flight, rate in rates.items()
    ]


def storage(*rates: list[ReadRate], **more: Any) -> StorageCeiling:
    """Storage that gives these."""
    return StorageCeiling(tuple(one for some in rates for one in some), "made up", **more)


def facts(*, total_bytes: int = 10**12, cache_bytes: int | None = None) -> Facts:
    """Baseline JPEGs of 100 kB, as many as there must be, where 10 GB of memory are free."""
    spread = Percentiles(*[SAMPLE_BYTES] * 4)
    place = Place("local disk" if cache_bytes is None else "remote", "", 10**10, cache_bytes)
    megapixels = Percentiles(*[0.5] * 4)
    count = int(total_bytes / SAMPLE_BYTES)
    kinds = {"baseline JPEG": 100}
    return Facts(count, 100, 0, kinds, spread, spread, megapixels, total_bytes, place)


def ceilings(
    *stages: StageCost, reads: StorageCeiling | None = None, cores: Cores | None = None, **more: Any
) -> Ceilings:
    """Ceilings of a loader of 16 threads on 8 cores with batches of 64, two ahead."""
    setting = more.pop("setting", Setting(64, 16, 2, "cpu", "cpu", "fused"))
    fast = reads or storage(reading("cold", {1: 1e6}), reading("warm", {1: 1e6}))
    return Ceilings(
        more.pop("facts", facts()), setting, cores or Cores(8, 8.0, 0.0), fast, stages, **more
    )
