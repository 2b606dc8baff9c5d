"""Which stage limits a loader: what its statistics name, and what stages give alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from bench.timing import Measurement
from bench.tune.stages import DECODING, LOADING, READING
from dali_pipes.stats import Stats
from dali_pipes.stats.counts import STAGE_GROUPS
from dali_pipes.stats.stats import ENOUGH_CORES, ENOUGH_WAITING

TRAINING_STEP = "training step"

_DOING = {
    "read": "reading",
    "decode": "decoding",
    "augment": "augmenting",
    "copy": "copying",
    "idle": "nothing",
}

_MOSTLY = 0.4  # of the time waited


@dataclass(frozen=True)
class Limit:
    """What limits a loader.

    Attributes:
        stage: "read", "decode", "augment", "copy" or "training step".
        wait_share: Share of its time that the consumer waited for a batch, 0 to 1.
        shares: What threads did while it waited, by stage and "idle"; shares of the time waited.
        core_share: Share of their work for which threads had a core, 0 to 1.
    """

    stage: str
    wait_share: float
    shares: Mapping[str, float]
    core_share: float

    @property
    def sentence(self) -> str:
        """What limits and how that is known, in a sentence."""
        waited = f"{self.wait_share:.0%} of the time"
        if self.stage == TRAINING_STEP:
            return f"The training step limits: it waits for batches for {waited}."
        ordered = sorted(self.shares.items(), key=lambda part: -part[1])
        parts = [f"{_DOING[name]} {share:.0%}" for name, share in ordered if share >= 0.05]
        found = (
            f"{_DOING[self.stage].capitalize()} limits: the consumer waits for {waited}, while the threads do: "
            f"{', '.join(parts)}."
        )
        if self.core_share < ENOUGH_CORES:
            found += f" They have a core for only {self.core_share:.0%} of their work: other processes take the cores."
        return found


def find_limit(stats: Sequence[Stats], alone: Mapping[str, Measurement]) -> Limit:
    """Find the stage that limits a loader.

    Args:
        stats: What the loader did in its turns; at least one.
        alone: Trials of stages, by READING, DECODING and LOADING, as far as they were measured.
    """
    seconds = sum(one.seconds for one in stats)
    waited = sum(one.wait_seconds for one in stats)
    groups: dict[str, tuple[str, ...]] = {**STAGE_GROUPS, "idle": ("idle",)}
    late = {
        name: sum(one.late.get(part, 0.0) for one in stats for part in parts)
        for name, parts in groups.items()
    }
    shares = {name: spent / max(waited, 1e-9) for name, spent in late.items()}
    wait_share = waited / max(seconds, 1e-9)
    if wait_share < ENOUGH_WAITING:
        stage = TRAINING_STEP
    elif shares["idle"] > _MOSTLY and DECODING in alone:
        # Threads that wait for a GPU or for one another do nothing, so only the trials tell.
        stage = _dearest(alone)
    else:
        stage = max(STAGE_GROUPS, key=lambda name: shares[name])
    return Limit(stage, wait_share, shares, fmean(one.core_share for one in stats))


def _dearest(alone: Mapping[str, Measurement]) -> str:
    """Return the stage that adds most to the seconds per sample."""
    seconds = {name: one.seconds_per_item for name, one in alone.items()}
    read = seconds.get(READING, 0.0)
    added = {
        "read": read,
        "decode": seconds[DECODING] - read,
        "augment": seconds[LOADING] - seconds[DECODING],
    }
    return max(added, key=lambda name: added[name])


def further_help(limit: Limit, *, device: str, clips: bool, is_packed: bool) -> list[str]:
    """Say what helps besides settings, one sentence each; none of it was tried.

    Args:
        limit: What limits with the settings before the search.
        device: Type of the device: "cpu" or "cuda".
        clips: Whether samples are clips.
        is_packed: Whether neighbouring samples lie in one file.
    """
    found = {
        "read": _faster_reading(is_packed),
        "decode": _faster_decoding(device, clips),
        "augment": _faster_augmenting(device),
        "copy": ["dtype=torch.bfloat16 or torch.uint8 halves or quarters the bytes of a batch."],
    }.get(limit.stage, [])
    if limit.core_share < ENOUGH_CORES and limit.stage in ("decode", "augment"):
        found.insert(0, "Leave the cores to the loader: other processes take them.")
    return found


def _faster_reading(is_packed: bool) -> list[str]:
    if is_packed:
        return [
            "shuffle='block' reads neighbouring samples together; the order is then another one.",
            "Faster storage, or memory that holds all data from the second epoch on.",
        ]
    return [
        "gpu-aug pack DATA OUT makes a few large files of many small ones, then shuffle='block'.",
        "Faster storage, or memory that holds all data from the second epoch on.",
    ]


def _faster_decoding(device: str, clips: bool) -> list[str]:
    more = ["More cores." if device == "cuda" else "More cores, or a GPU that decodes."]
    if clips:
        return [*more, "Videos of a smaller size, or with more key frames."]
    return [
        *more,
        "Smaller copies of the images, if the recipe shrinks them much.",
        "decode='fast' decodes JPEGs at a smaller size; pixels then differ slightly.",
    ]


def _faster_augmenting(device: str) -> list[str]:
    cheaper = (
        "A recipe without its most expensive operation; gpu-aug recipe show lists what each costs."
    )
    return [cheaper] if device == "cuda" else ["More cores, or a GPU that augments.", cheaper]
