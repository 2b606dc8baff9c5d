"""The ceilings of an input pipeline: what each of its stages and its storage give when nothing else is in the way."""

from dataclasses import dataclass, field

from bench.tune.ceilings_cores import Cores
from bench.tune.facts import Facts
from bench.tune.stages import StageCost
from bench.tune.storage import StorageCeiling


@dataclass(frozen=True, slots=True)
class Setting:
    """What a loader is set to, as far as its ceilings depend on it.

    Attributes:
        batch_size: Samples of a batch.
        num_threads: Threads of the loader.
        prefetch: Batches in flight besides the current one.
        device: "cpu" or "cuda".
        decoder: "cpu" or "dali".
        engine: "fused", "kornia" or "albumentations".
    """

    batch_size: int
    num_threads: int
    prefetch: int
    device: str
    decoder: str
    engine: str

    @property
    def in_flight(self) -> int:
        """Fetches that can be under way at once: no more than threads, and no more than batches in flight."""
        return max(min(self.prefetch + 1, self.num_threads), 1)


@dataclass(frozen=True, slots=True)
class Stored:
    """What decoding would cost if images were stored or decoded in another way.

    Attributes:
        decode: What decoding them costs then, measured on the same samples as `before`.
        before: What decoding those samples as they are costs, measured in turns with it.
        size_factor: Their bytes, divided by those that they have now.
        share: Share of all images that this can be done with; the others stay.
        how: How it was measured, one sentence.
        parts: By kind of image, the share of what decoding that kind costs that such images stand for.
    """

    decode: StageCost
    before: StageCost
    size_factor: float
    share: float
    how: str
    parts: dict[str, float] = field(default_factory=dict)

    def saving(self, ceilings: "Ceilings") -> float:
        """Share of what decoding all images costs that is saved; negative where it would cost more.

        The images that were tried tell by how much decoding them gets cheaper. How much of the whole such images cost
        is told by all images of their kinds, which are more.
        """
        decode = ceilings.stage("decode")
        assert decode is not None
        before, after = self.before.cpu_seconds.median, self.decode.cpu_seconds.median
        shares, kinds = ceilings.facts.shares, ceilings.decode_kinds
        touched = sum(
            part * shares.get(kind, 0.0) * kinds[kind].cpu_seconds.median
            for kind, part in self.parts.items()
            if kind in kinds
        )
        if not touched:
            touched = self.share * before
        return min(touched / decode.cpu_seconds.median, 1.0) * (1 - after / before)


@dataclass(frozen=True, slots=True)
class Ceilings:
    """What was measured.

    Attributes:
        facts: What the data are like.
        setting: What the loader was set to.
        cores: Cores that there are.
        storage: What storage gives.
        stages: What every stage costs, in the order in which a batch goes through them.
        decode_kinds: What decoding costs by kind of image, such as "progressive JPEG"; "decode" among the stages is
            of all kinds as they are mixed in the data.
        stored: By change: "fast" (decode="fast"), "smaller" (copies with fewer pixels); only those that can be done.
        skipped: By stage or change, why it was not measured, in words.
        seconds: How long it all took.
    """

    facts: Facts
    setting: Setting
    cores: Cores
    storage: StorageCeiling
    stages: tuple[StageCost, ...]
    decode_kinds: dict[str, StageCost] = field(default_factory=dict)
    stored: dict[str, Stored] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def stage(self, name: str) -> StageCost | None:
        """What a stage costs; None where it was not measured."""
        return next((cost for cost in self.stages if cost.name == name), None)
