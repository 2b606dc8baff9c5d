"""What a pipeline shares among its images, and how many of them per second each of these allows."""

from collections.abc import Iterator
from dataclasses import dataclass

from bench.tune.ceilings import Ceilings
from bench.tune.stages import StageCost
from bench.tune.storage import ReadRate, Temperature

STORAGE, CORES, THREADS = "storage", "cores", "threads"
HAND_OVER, TRANSFER, GPU, READ = "hand_over", "transfer", "gpu", "read"


@dataclass(frozen=True, slots=True)
class Resource:
    """Something that images go through.

    Attributes:
        name: "storage", "cores", "threads", "hand_over", "transfer", "gpu", "decode" (on a GPU), "training step".
        images_per_second: What it allows if all else were free.
        why: One clause with the numbers that this follows from.
    """

    name: str
    images_per_second: float
    why: str


def resources_of(ceilings: Ceilings, temperature: Temperature) -> list[Resource]:
    """What limits a pipeline with these ceilings, in no order.

    Args:
        ceilings: What was measured.
        temperature: Of the storage.
    """
    return [
        *_storage(ceilings, temperature),
        *_cores(ceilings, temperature),
        *_single(ceilings.stages),
        *_on_device(ceilings.stages),
    ]


def cpu_seconds_by_stage(ceilings: Ceilings, temperature: Temperature) -> dict[str, float]:
    """Seconds of a core per image, by stage; reading is among them."""
    read = _read_rate(ceilings, temperature)
    found = {} if read is None else {READ: read.cpu_seconds}
    for cost in ceilings.stages:
        if not cost.part_of:
            found[cost.name] = found.get(cost.name, 0.0) + cost.cpu_seconds.median
    return found


def cpu_shares(ceilings: Ceilings, temperature: Temperature) -> dict[str, float]:
    """The same as shares of their sum, the largest first."""
    seconds = cpu_seconds_by_stage(ceilings, temperature)
    total = sum(seconds.values()) or 1.0
    largest_first = sorted(seconds, key=lambda name: -seconds[name])
    return {name: seconds[name] / total for name in largest_first}


def _read_rate(ceilings: Ceilings, temperature: Temperature) -> ReadRate | None:
    return ceilings.storage.at(temperature, ceilings.setting.in_flight)


def _storage(ceilings: Ceilings, temperature: Temperature) -> Iterator[Resource]:
    read = _read_rate(ceilings, temperature)
    if read is None:
        return
    why = (
        f"storage gives {read.megabytes_per_second:.1f} MB/s {temperature} with {read.in_flight} fetches in flight, and a "
        f"sample has {read.sample_bytes / 1e3:.1f} kB"
    )
    yield Resource(STORAGE, read.samples_per_second, why)


def _cores(ceilings: Ceilings, temperature: Temperature) -> Iterator[Resource]:
    seconds = sum(cpu_seconds_by_stage(ceilings, temperature).values())
    if not seconds:
        return
    cores, threads = ceilings.cores, ceilings.setting.num_threads
    got = f"{cores.got:.1f} of {cores.usable} cores" if cores.taken else f"{cores.got:.1f} cores"
    why = f"an image takes {seconds * 1e3:.2f} ms of a core, and there are {got}"
    yield Resource(CORES, cores.got / seconds, why)
    waiting = _waiting(ceilings, temperature)
    why = (
        f"an image takes {seconds * 1e3:.2f} ms of a thread and waits {waiting * 1e3:.2f} ms for storage, and there are "
        f"{threads} threads"
    )
    yield Resource(THREADS, threads / (seconds + waiting), why)


def _waiting(ceilings: Ceilings, temperature: Temperature) -> float:
    """Seconds per image for which a thread that fetches has nothing to do, with one fetch at a time."""
    read = ceilings.storage.at(temperature, 1)
    return 0.0 if read is None else max(1 / read.samples_per_second - read.cpu_seconds, 0.0)


def _single(stages: tuple[StageCost, ...]) -> Iterator[Resource]:
    """What one thread does for all."""
    seconds = sum(cost.cpu_seconds.median for cost in stages if cost.one_thread)
    if seconds:
        why = f"one thread hands batches over, and takes {seconds * 1e6:.1f} us per image"
        yield Resource(HAND_OVER, 1 / seconds, why)


def _on_device(stages: tuple[StageCost, ...]) -> Iterator[Resource]:
    names = {"transfer": TRANSFER, "augment": GPU}
    for cost in stages:
        if cost.on_device:
            name = names.get(cost.name, cost.name)
            rate = cost.together.median
            yield Resource(name, rate, f"the GPU alone does {cost.name} of {rate:.0f} images/s")
