"""What limits, in words: one sentence with its numbers."""

from bench.tune.bound import OTHERS, STEP, Bound
from bench.tune.bound_resources import CORES, Resource
from dali_pipes.stats.stats import TRAINING_LOOP, Stats

_DOING = {
    "storage": "storage",
    "read": "reading",
    "header": "reading headers",
    "draw": "drawing parameters",
    "decode": "decoding",
    "augment": "augmenting",
    "targets": "moving targets",
    "transfer": "copying to the GPU",
    "gpu": "the GPU's part of the recipe",
    "hand_over": "handing batches over",
    "threads": "the number of threads",
    "idle": "idle",
    OTHERS: "other processes",
    STEP: "the training step",
}
_SAME = {
    "read": {"read", "storage", "threads"},
    "augment": {"augment", "gpu"},
    TRAINING_LOOP: {STEP},
}
"""Causes of a bound that a stage of the statistics can stand for, besides that of its own name."""

_FAR, _ABOVE = 0.75, 1.25


def doing(names: tuple[str, ...] | list[str]) -> str:
    """Causes or stages as words of a sentence."""
    words = [_DOING.get(name, name) for name in names]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def number(rate: float) -> str:
    """A rate with three figures at least, such as 1150, 85.3 or 0.27."""
    return f"{rate:.0f}" if rate >= 100 else f"{rate:.3g}"


def sentence_of(
    bound: Bound, made: float, stats: Stats | None, *, wanted: float | None, unit: str, enough: bool
) -> str:
    """Say what limits a loader, and how that is known.

    Args:
        bound: What follows from the ceilings.
        made: Samples per second that the loader made, as fast as it could.
        stats: What it did meanwhile; None where that is not known.
        wanted: Samples per second that the training asks for.
        unit: "images" or "clips".
        enough: Whether the training did not wait for them.
    """
    if enough and wanted is not None:
        return (
            f"Nothing to gain: the training step needs {number(wanted)} {unit}/s and the loader makes "
            f"{number(made)}."
        )
    slowest, causes = _slowest(bound), _causes(bound)
    verb = "limit" if len(causes) > 1 else "limits"
    shares = ""
    if slowest.name == CORES:
        named = [
            f"{doing([name])} {bound.shares[name]:.0%}" for name in causes if name in bound.shares
        ]
        shares = f" ({' and '.join(named)} of that time)" if named else ""
    needs = "" if wanted is None else f", and the training step needs {number(wanted)}"
    first = (
        f"{_capital(doing(causes))} {verb}: {slowest.why}{shares}, which allows "
        f"{number(slowest.images_per_second)} {unit}/s; the loader makes {number(made)}{needs}."
    )
    return f"{first} {_capital(stats.verdict)}." if stats is not None and stats.verdict else first


def sentence_without_ceilings(
    made: float, stats: Stats | None, *, wanted: float | None, unit: str, enough: bool
) -> str:
    """The same, where stages cannot be measured one by one, by what the loader itself saw."""
    makes = f"the loader makes {number(made)} {unit}/s"
    needs = "" if wanted is None else f"the training step needs {number(wanted)} {unit}/s"
    if enough:
        return f"Nothing to gain: {needs} and {makes}."
    limit = "" if stats is None else stats.limit
    begin = f"{_capital(doing([limit]))} limits" if limit else "What limits was not seen"
    seen = "" if stats is None else stats.verdict
    return "; ".join(part for part in (begin, makes, needs, seen) if part) + "."


def doubt_of(bound: Bound, made: float, stats: Stats | None, *, enough: bool) -> str:
    """Say why the bound and what the loader itself saw differ; "" where they agree."""
    slowest = _slowest(bound)
    if not enough and made < _FAR * slowest.images_per_second:
        return (
            f"The loader makes {made / slowest.images_per_second:.0%} of what its stages allow: what is missing is "
            "none of their own time, but waiting for one another, for Python's lock or for other processes."
        )
    if not enough and made > _ABOVE * slowest.images_per_second:
        return (
            f"The loader makes {made / slowest.images_per_second:.2f} times what follows from its parts alone: other "
            "processes took more while these were measured, or the reads of an epoch lie closer together than theirs."
        )
    limit = "" if stats is None else stats.limit
    if not enough and bound.verdict == "enough":
        return (
            "On its own each stage would be fast enough: the training waits when the cores have more to do than on "
            "average, as other processes come and go or large samples meet in a batch."
        )
    if enough or not limit or OTHERS in bound.causes or _agree(limit, bound.causes):
        return ""
    begin = f"The loader's own statistics name {doing([limit])}"
    if limit == TRAINING_LOOP:
        return (
            f"The loader's own statistics say that the training waited for {stats.wait_share:.0%} of its time only: "
            "the ceilings were measured one by one, and are a little low."
            if stats is not None
            else ""
        )
    if limit == "read":
        return (
            f"{begin}: a thread that reads has to share its core with those that decode, and what it waits for it "
            "counts as reading."
        )
    if limit in bound.shares and _slowest(bound).name == CORES:
        return f"{begin}, which takes {bound.shares[limit]:.0%} of the same cores: on these the two are one limit."
    return (
        f"{begin}: with the data as they came in this run, out of a cache, {doing(bound.causes)} did not limit yet."
        if "storage" in bound.causes
        else f"{begin}, whose ceiling alone is higher: together the stages take longer than one by one."
    )


def _causes(bound: Bound) -> list[str]:
    """What limits besides the training step; where that alone does, what would come next."""
    causes = [cause for cause in bound.causes if cause != STEP]
    if causes:
        return causes
    slowest = _slowest(bound).name
    return list(bound.shares)[:1] if slowest == CORES and bound.shares else [slowest]


def _slowest(bound: Bound) -> Resource:
    return next(one for one in bound.resources if one.name != STEP)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _agree(limit: str, causes: tuple[str, ...]) -> bool:
    return bool(({limit} | _SAME.get(limit, set())) & set(causes))
