"""What limits an input pipeline, as it follows from its ceilings."""

from dataclasses import dataclass, field
from typing import Literal

from bench.output.errors import BenchError
from bench.tune.bound_resources import CORES, STORAGE, THREADS, Resource, cpu_shares, resources_of
from bench.tune.ceilings import Ceilings
from bench.tune.storage import Temperature

NEAR = 0.15
"""Rates that differ by no more than this are one limit with two causes."""

STEP = "training step"
OTHERS = "other processes"

Verdict = Literal["enough", "tight", "short", "no aim"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """How fast batches are asked for.

    Attributes:
        images_per_second: Images per second; None where nobody says, and faster is better.

    Raises:
        BenchError: It is not greater than 0.
    """

    images_per_second: float | None = None

    def __post_init__(self) -> None:
        if self.images_per_second is not None and not self.images_per_second > 0:
            raise BenchError(
                f"images_per_second must be greater than 0, got {self.images_per_second}: leave it out where the "
                "loader shall be as fast as it can"
            )

    @classmethod
    def of_step(cls, step_ms: float, batch_size: int) -> "Wanted":
        """What a training step of so many milliseconds on a batch of so many images asks for.

        Raises:
            BenchError: One of them is not greater than 0.
        """
        if not (step_ms > 0 and batch_size > 0):
            raise BenchError(
                f"step_ms and batch_size must be greater than 0, got {step_ms} and {batch_size}: time a training step "
                "on a batch that is there already"
            )
        return cls(batch_size * 1e3 / step_ms)


@dataclass(frozen=True, slots=True)
class Bound:
    """What limits.

    Attributes:
        resources: What can limit, each with the images per second that it allows, the slowest first; the training step
            is among them where it is known.
        causes: What limits, in words: "storage", "threads", "hand_over", "transfer", "gpu", "training step", the stage
            or stages that take most of the cores ("decode", "augment", "header", "draw", "targets", "read"), and
            "other processes" where these take the cores. Several where they limit alike.
        images_per_second: What the pipeline gives at most, whatever the training step.
        wanted: What was asked for.
        verdict: "enough": there is nothing to gain, the training step limits. "tight": the two are within 15 %.
            "short": the pipeline limits. "no aim": nobody said how fast batches are asked for.
        temperature: Of the storage in this: "cold" for an epoch that reads the data for the first time.
        shares: Share of every stage in the seconds of cores that an image takes, the largest first.
        later: What limits epochs that find the data in a cache; None where these are like the first.
    """

    resources: tuple[Resource, ...]
    causes: tuple[str, ...]
    images_per_second: float
    wanted: Wanted
    verdict: Verdict
    temperature: Temperature
    shares: dict[str, float] = field(default_factory=dict)
    later: "Bound | None" = None

    @property
    def limit(self) -> float:
        """Images per second that reach the training: those of the slowest resource."""
        return self.resources[0].images_per_second

    @property
    def headroom(self) -> dict[str, float]:
        """How many times as much as the limit every resource allows; 1 for the slowest."""
        return {one.name: one.images_per_second / self.limit for one in self.resources}

    @property
    def next_limit(self) -> Resource | None:
        """What would limit next; None where all limit alike."""
        return next((one for one in self.resources if not _near(one, self.limit)), None)


def find_bound(
    ceilings: Ceilings, wanted: Wanted = Wanted(), *, temperature: Temperature | None = None
) -> Bound:
    """Say what limits a pipeline with these ceilings.

    A pipeline is as fast as its slowest resource. Cores are shared by all stages that run on them, so they allow
    the cores divided by the sum of what the stages take; storage, transfer and a GPU work beside them.

    Args:
        ceilings: What was measured.
        wanted: How fast batches are asked for.
        temperature: Of the storage; None takes "cold" where that was measured, and tells of later epochs in `later`.

    Raises:
        BenchError: Nothing was measured.
    """
    storage = ceilings.storage
    chosen = temperature or ("cold" if storage.of("cold") else "warm")
    pipeline = sorted(resources_of(ceilings, chosen), key=lambda one: one.images_per_second)
    if not pipeline:
        raise BenchError(
            "no stage was measured, so nothing follows: give ceilings of at least one stage"
        )
    reached, aim = pipeline[0].images_per_second, wanted.images_per_second
    everything = pipeline
    if aim is not None:
        step = Resource(STEP, aim, f"the training asks for {aim:.0f} images/s")
        everything = sorted([*pipeline, step], key=lambda one: one.images_per_second)
    verdict = _verdict(reached, aim)
    causes = [] if verdict == "enough" else _causes(ceilings, chosen, pipeline)
    if verdict in ("enough", "tight"):
        causes = [STEP, *causes]
    later = None
    if (
        temperature is None
        and chosen == "cold"
        and ceilings.facts.stays_near
        and storage.of("warm")
    ):
        later = find_bound(ceilings, wanted, temperature="warm")
    return Bound(
        tuple(everything),
        tuple(causes),
        reached,
        wanted,
        verdict,
        chosen,
        cpu_shares(ceilings, chosen),
        later,
    )


def _verdict(reached: float, aim: float | None) -> Verdict:
    if aim is None:
        return "no aim"
    if reached >= aim * (1 + NEAR):
        return "enough"
    return "tight" if reached >= aim / (1 + NEAR) else "short"


def _near(resource: Resource, limit: float) -> bool:
    return resource.images_per_second <= limit * (1 + NEAR)


def _causes(ceilings: Ceilings, temperature: Temperature, pipeline: list[Resource]) -> list[str]:
    """Name the resources that limit; for cores, who takes them."""
    limit = pipeline[0].images_per_second
    names = [one.name for one in pipeline if _near(one, limit)]
    if THREADS in names and (STORAGE in names or CORES in names):
        names.remove(THREADS)  # threads that wait for storage, or that have no more cores
    causes: list[str] = []
    for name in names:
        if name != CORES:
            causes.append(name)
            continue
        causes += [OTHERS] if ceilings.cores.taken else []
        shares = cpu_shares(ceilings, temperature)
        most = max(shares.values())
        causes += [stage for stage, share in shares.items() if share >= most * (1 - NEAR)]
    return list(dict.fromkeys(causes))
