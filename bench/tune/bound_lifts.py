"""What a change would lift a pipeline to, estimated from its ceilings alone."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from bench.compare.timer import Rate
from bench.micro.turns import Turns
from bench.tune.bound import Bound, find_bound
from bench.tune.bound_resources import CORES, STORAGE
from bench.tune.ceilings import Ceilings, Stored
from bench.tune.stages import StageCost
from bench.tune.storage import ReadRate, StorageCeiling

LEAST = 1.05
"""What lifts its own resource by less is no change worth naming."""

_ROOM = 1.1
_LEAST_LEFT = 0.01
_MOST_THREADS_PER_CORE = 4


@dataclass(frozen=True, slots=True)
class Lift:
    """A change and what it would do.

    Attributes:
        change: "threads", "in flight", "fast", "smaller", "pack", "block shuffle", "cache", "cores".
        resource: What it lifts: "storage", "cores", "threads".
        own_factor: How many times as much that resource then allows.
        factor: How many times as fast the pipeline then is; 1 where something else limits it.
        images_per_second: What the pipeline then gives at most.
        settings: Arguments of Loader, or of open_dataset for "cache"; empty where the data are rewritten.
        command: The command that rewrites the data, without its folders; "" where none does.
        lossy: Whether pixels change.
        why: One sentence with the numbers that were measured.
    """

    change: str
    resource: str
    own_factor: float
    factor: float
    images_per_second: float
    settings: Mapping[str, object] = field(default_factory=dict)
    command: str = ""
    lossy: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True)
class _Changed:
    """Ceilings after a change, and how the change is told."""

    ceilings: Ceilings
    change: str
    resource: str
    why: str
    settings: Mapping[str, object] = field(default_factory=dict)
    command: str = ""
    lossy: bool = False


def find_lifts(ceilings: Ceilings, bound: Bound) -> tuple[Lift, ...]:
    """What could be changed, the greatest effect first.

    Every number is computed from what was measured, by finding the bound of ceilings in which one of them is changed.
    What would lift its own resource by less than 5 % is left out.

    Args:
        ceilings: What was measured.
        bound: What limits now, as found from these ceilings.
    """
    lifts = []
    for changed in _changes(ceilings, bound):
        then = find_bound(changed.ceilings, temperature=bound.temperature)
        before = {one.name: one.images_per_second for one in bound.resources}
        after = {one.name: one.images_per_second for one in then.resources}
        own = after[changed.resource] / before[changed.resource]
        if own < LEAST:
            continue
        lifts.append(
            Lift(
                changed.change,
                changed.resource,
                own,
                max(then.images_per_second / bound.images_per_second, 1.0),
                max(then.images_per_second, bound.images_per_second),
                changed.settings,
                changed.command,
                changed.lossy,
                changed.why,
            )
        )
    return tuple(sorted(lifts, key=lambda lift: (-lift.factor, -lift.own_factor)))


def _changes(ceilings: Ceilings, bound: Bound) -> Iterator[_Changed]:
    names = {one.name for one in bound.resources}
    if CORES in names:
        yield from _more_threads(ceilings)
        yield from _others_gone(ceilings)
    if STORAGE in names:
        yield from _more_in_flight(ceilings, bound)
        yield from _neighbours(ceilings, bound)
        yield from _packed(ceilings, bound)
        yield from _larger_cache(ceilings, bound)
    if CORES in names and ceilings.stage("decode") is not None:
        for name in ("fast", "smaller"):
            if name in ceilings.stored:
                yield _stored(ceilings, name, ceilings.stored[name])


def _more_threads(ceilings: Ceilings) -> Iterator[_Changed]:
    """As many threads as there are cores, or more where they wait for storage."""
    setting, usable = ceilings.setting, ceilings.cores.usable
    read = ceilings.storage.best("cold") or ceilings.storage.best("warm")
    wanted = max(usable, read.in_flight if read else 1)
    wanted = min(wanted, _MOST_THREADS_PER_CORE * usable)
    if wanted > setting.num_threads:
        changed = replace(ceilings, setting=replace(setting, num_threads=wanted))
        why = (
            f"the loader has {setting.num_threads} threads, and this process may use {usable} cores"
        )
        yield _Changed(changed, "threads", "threads", why, {"num_threads": wanted})


def _others_gone(ceilings: Ceilings) -> Iterator[_Changed]:
    cores = ceilings.cores
    if cores.taken:
        changed = replace(ceilings, cores=replace(cores, got=float(cores.usable), others=0.0))
        why = f"other processes or loaders leave {cores.got:.1f} of {cores.usable} cores"
        yield _Changed(changed, "cores", CORES, why)


def _more_in_flight(ceilings: Ceilings, bound: Bound) -> Iterator[_Changed]:
    setting, storage = ceilings.setting, ceilings.storage
    now = storage.at(bound.temperature, setting.in_flight)
    best = storage.best(bound.temperature)
    if now is None or best is None or not storage.grows(bound.temperature, setting.in_flight):
        return
    least = min(
        (
            one
            for one in storage.of(bound.temperature)
            if one.samples_per_second * LEAST >= best.samples_per_second
        ),
        key=lambda one: one.in_flight,
    )
    prefetch = max(least.in_flight - 1, setting.prefetch)
    num_threads = max(least.in_flight, setting.num_threads)
    setting = replace(setting, prefetch=prefetch, num_threads=num_threads)
    changed = replace(ceilings, setting=setting)
    settings = {"prefetch": prefetch, "num_threads": num_threads}
    why = (
        f"storage gave {now.megabytes_per_second:.1f} MB/s with {now.in_flight} fetches in flight and "
        f"{least.megabytes_per_second:.1f} MB/s with {least.in_flight}"
    )
    yield _Changed(changed, "in flight", STORAGE, why, settings)


def _neighbours(ceilings: Ceilings, bound: Bound) -> Iterator[_Changed]:
    near, now = (
        ceilings.storage.sequential,
        ceilings.storage.at(bound.temperature, ceilings.setting.in_flight),
    )
    if near is None or now is None or near.temperature != bound.temperature:
        return
    why = (
        f"batches of neighbouring samples came at {near.megabytes_per_second:.1f} MB/s, random ones at "
        f"{now.megabytes_per_second:.1f} MB/s"
    )
    changed = _with_rate(ceilings, bound, near.samples_per_second)
    yield _Changed(changed, "block shuffle", STORAGE, why, {"shuffle": "block"})


def _packed(ceilings: Ceilings, bound: Bound) -> Iterator[_Changed]:
    """Many small files as few large ones."""
    storage = ceilings.storage
    now = storage.at(bound.temperature, ceilings.setting.in_flight)
    if not storage.one_file_each or storage.big_bytes_per_second is None or now is None:
        return
    if storage.of("cold") and bound.temperature != "cold":
        return  # the large file was read cold
    big = storage.big_bytes_per_second
    why = f"a large file on this storage was read at {big / 1e6:.1f} MB/s, single files at {now.megabytes_per_second:.1f} MB/s"
    changed = _with_rate(ceilings, bound, big / now.sample_bytes)
    yield _Changed(changed, "pack", STORAGE, why, {"shuffle": "block"}, "gpu-aug pack")


def _larger_cache(ceilings: Ceilings, bound: Bound) -> Iterator[_Changed]:
    """A cache that holds all, for the epochs after the first."""
    facts, warm = ceilings.facts, ceilings.storage.best("warm")
    cache = facts.place.cache_bytes
    if cache is None or facts.total_bytes <= cache or bound.temperature != "cold" or warm is None:
        return
    size = round(facts.total_bytes * _ROOM)
    why = (
        f"the data have {facts.total_bytes / 1e9:.1f} GB and the cache of remote blocks {cache / 1e9:.1f} GB; from the second "
        f"epoch on, a cache of {size / 1e9:.1f} GB gives {warm.megabytes_per_second:.1f} MB/s"
    )
    changed = _with_rate(ceilings, bound, warm.samples_per_second)
    yield _Changed(changed, "cache", STORAGE, why, {"cache_bytes": size})


def _stored(ceilings: Ceilings, name: str, one: Stored) -> _Changed:
    """Images stored or decoded in another way: cheaper to decode, and fewer bytes to read."""
    factor = max(1 - one.saving(ceilings), _LEAST_LEFT)
    stages = tuple(
        _scaled(stage, factor) if stage.name == "decode" else stage for stage in ceilings.stages
    )
    bytes_factor = 1 - one.share * (1 - one.size_factor)
    storage = ceilings.storage
    rates = tuple(_with_bytes(storage, rate, bytes_factor) for rate in storage.rates)
    changed = replace(ceilings, stages=stages, storage=replace(storage, rates=rates))
    why = (
        f"{one.how}: decoding one took {one.before.cpu_seconds.median * 1e3:.2f} ms of a core before and "
        f"{one.decode.cpu_seconds.median * 1e3:.2f} ms after, and {one.share:.0%} of all are such"
    )
    settings = {"decode": "fast"} if name == "fast" else {}
    return _Changed(changed, name, CORES, why, settings, lossy=True)


def _scaled(cost: StageCost, factor: float) -> StageCost:
    return replace(
        cost,
        cpu_seconds=Turns(tuple(run * factor for run in cost.cpu_seconds.runs)),
        alone=Rate(tuple(run / factor for run in cost.alone.runs)),
        together=Rate(tuple(run / factor for run in cost.together.runs)),
    )


def _with_bytes(storage: StorageCeiling, rate: ReadRate, factor: float) -> ReadRate:
    """Samples of so many times the bytes: what a request costs besides its bytes stays."""
    now = storage.latency_seconds + storage.seconds_per_byte * rate.sample_bytes
    then = storage.latency_seconds + storage.seconds_per_byte * rate.sample_bytes * factor
    speed_up = now / then if then > 0 else 1.0
    runs = tuple(run * max(speed_up, 1.0) for run in rate.rate.runs)
    return replace(rate, rate=Rate(runs), sample_bytes=rate.sample_bytes * factor)


def _with_rate(ceilings: Ceilings, bound: Bound, samples_per_second: float) -> Ceilings:
    """Ceilings whose storage gives so many samples per second at the bound's temperature, however many are in flight."""
    storage: StorageCeiling = ceilings.storage
    rates = tuple(
        replace(rate, rate=Rate((max(samples_per_second, rate.samples_per_second),)))
        if rate.temperature == bound.temperature
        else rate
        for rate in storage.rates
    )
    return replace(ceilings, storage=replace(storage, rates=rates))
