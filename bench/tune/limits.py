"""Which stage limits a loader: what its statistics name, and what stages give alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from bench.timing import Measurement, Turn
from dali_pipes.stats import Stats
from dali_pipes.stats.counts import STAGE_GROUPS
from dali_pipes.stats.stats import ENOUGH_CORES, ENOUGH_WAITING

READING, DECODING, LOADING = "reading", "reading and decoding", "the loader"
"""Names of the trials without a training step. Each does what the one before it does, and more."""

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
        doing = f", while the threads do: {', '.join(parts)}" if parts else ""
        found = f"{_DOING[self.stage].capitalize()} limits: the consumer waits for {waited}{doing}."
        if self.core_share < ENOUGH_CORES:
            found += f" They have a core for only {self.core_share:.0%} of their work: other processes take the cores."
        return found


def find_limit(record: Sequence[tuple[Turn, Stats]], alone: Mapping[str, Measurement]) -> Limit:
    """Find the stage that limits a loader.

    Args:
        record: Turns of the loader, and what it did in each; at least one.
        alone: Trials of stages, by READING, DECODING and LOADING, as far as they were measured.
    """
    # The statistics count the wait for the first batch of an epoch as its start, so a short turn may have no other wait.
    wait_share = Measurement(tuple(turn for turn, _ in record)).wait_share
    stats = [one for _, one in record]
    waited = sum(one.wait_seconds for one in stats)
    groups: dict[str, tuple[str, ...]] = {**STAGE_GROUPS, "idle": ("idle",)}
    shares = {
        name: sum(one.late.get(part, 0.0) for one in stats for part in parts) / max(waited, 1e-9)
        for name, parts in groups.items()
    }
    if wait_share < ENOUGH_WAITING:
        stage = TRAINING_STEP
    elif DECODING in alone and (not waited or shares["idle"] > _MOSTLY):
        # Threads that wait for a GPU or for one another do nothing, so only the trials tell.
        stage = _dearest(alone)
    else:
        stage = max(STAGE_GROUPS, key=lambda name: shares[name])
    return Limit(stage, wait_share, shares, fmean(one.core_share for one in stats))


def _dearest(alone: Mapping[str, Measurement]) -> str:
    """Return the stage that adds most to the seconds per sample."""
    read = alone[READING].seconds_per_item if READING in alone else 0.0
    decoded, loaded = alone[DECODING].seconds_per_item, alone[LOADING].seconds_per_item
    added = {"read": read, "decode": decoded - read, "augment": loaded - decoded}
    return max(added, key=lambda name: added[name])


def further_help(limit: Limit, *, device: str, clips: bool, is_packed: bool) -> list[str]:
    """Say what helps besides settings, one sentence each; none of it was tried.

    Args:
        limit: What limits the loader.
        device: Type of the device: "cpu" or "cuda".
        clips: Whether samples are clips.
        is_packed: Whether neighbouring samples lie in one file.
    """
    block = (
        "shuffle='block' reads neighbouring samples together; the order is then another one."
        if is_packed
        else "gpu-aug pack DATA OUT makes a few large files of many small ones, then shuffle='block'."
    )
    smaller = (
        ["Videos of a smaller size, or with more key frames."]
        if clips
        else [
            "Smaller copies of the images, if the recipe shrinks them much.",
            "decode='fast' decodes JPEGs at a smaller size; pixels then differ slightly.",
        ]
    )
    on_gpu = device == "cuda"
    found = {
        "read": [
            block,
            "Faster storage, or memory that holds all data from the second epoch on.",
        ],
        "decode": ["More cores." if on_gpu else "More cores, or a GPU that decodes.", *smaller],
        "augment": [
            *([] if on_gpu else ["More cores, or a GPU that augments."]),
            "A recipe without its most expensive operation; gpu-aug recipe show lists what each costs.",
        ],
        "copy": ["dtype=torch.bfloat16 or torch.uint8 halves or quarters the bytes of a batch."],
    }.get(limit.stage, [])
    if limit.core_share < ENOUGH_CORES and limit.stage in ("decode", "augment"):
        found.insert(0, "Leave the cores to the loader: other processes take them.")
    return found
