"""Show the progress of all ranks in a table, and find the ranks that delay the others, with stage and reason."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from dali_pipes.monitoring.ranks.rank_report import RankReport
from dali_pipes.monitoring.stage_stats import align_columns

# A rank is late if the share of time that its training loop waits exceeds the others' median by this much. If the
# ranks step together, the others then wait for it in a collective.
_MORE_WAITING = 0.15
# If ranks do not wait for each other: a rank is late if it is this many times slower than the others, and waits this much.
_TIMES_SLOWER, _LEAST_WAITING = 1.5, 0.3
# A stage is a possible cause if it takes at least this many times as long as elsewhere; less is noise.
_TIMES_LONGER = 1.3
_TIMES_AS_MANY = 2.0  # a share of cores or images is mentioned from this factor on
_LEAST_SAMPLES = 2  # fewer samples give no rate
_MAX_TIMES = 100  # a larger factor has no meaning, because the others take next to no time

_HEAD = (
    "rank", "epoch", "step", "waits for", "since", "heard", "images/s", "waited", "slowest stage",
)  # fmt: skip


class RankTable(Sequence[RankReport]):
    """The latest report of every known rank; printing it shows a table.

    Args:
        reports: The reports by rank.
        missing: Why reports of other ranks are missing; "" if none are missing.

    Attributes:
        late: One sentence per rank that the others wait for, the latest rank first.

    Example:
        >>> loader = Loader(open_dataset("photos/"), Recipe.imagenet_train(size=64), batch_size=8)
        >>> for batch in loader:
        ...     pass
        >>> table = loader.ranks()
        >>> [report.rank for report in table], table.late
        ([0], [])
    """

    def __init__(self, reports: Sequence[RankReport], missing: str = "") -> None:
        self._reports, self._missing = list(reports), missing
        self.late = [late.text for late in find_late(self._reports)]

    def __len__(self) -> int:
        return len(self._reports)

    def __getitem__(self, number: Any) -> Any:
        return self._reports[number]

    def __repr__(self) -> str:
        lines = align_columns([_HEAD, *map(_row, self._reports)], left=range(len(_HEAD)))
        return "\n".join(
            [*lines, *self.late, *filter(None, [find_other_draws(self._reports), self._missing])]
        )


def _row(report: RankReport) -> tuple[str, ...]:
    slowest = max(report.stages, key=lambda stage: report.stages[stage], default="")
    return (
        str(report.rank),
        str(report.epoch),
        str(report.steps),
        f"{report.state}: {report.waits_for}" if report.waits_for else report.state,
        f"{report.state_seconds:.0f} s",
        f"{report.age_seconds:.0f} s ago",
        f"{report.images_per_second:.4g}" if report.samples else "-",
        f"{report.wait_share:.0%}" if report.window_seconds else "-",
        f"{slowest} {_milliseconds(report.stages[slowest])}" if slowest else "-",
    )


@dataclass(frozen=True, slots=True)
class LateRank:
    """A rank that delays the others.

    Attributes:
        rank: The rank.
        stage: The stage that takes longer on this rank than on the others; "" if no stage does.
        text: A sentence with the rank, the delay and its reason.
    """

    rank: int
    stage: str
    text: str


def find_late(reports: Sequence[RankReport]) -> list[LateRank]:
    """Return the late ranks, the latest one first.

    Args:
        reports: The latest report of each rank. Only reports of the most common loop with several batches are compared.
    """
    usable = [one for one in reports if one.window_seconds > 0 and one.samples >= _LEAST_SAMPLES]
    loops = [report.loop for report in usable]
    usual = max(loops, key=loops.count, default="")
    usable = [report for report in usable if report.loop == usual]
    late = []
    for report in sorted(usable, key=lambda report: -report.wait_share):
        others = [one for one in usable if one.rank != report.rank]
        if others and (symptom := _symptom(report, others)):
            stage, cause = _cause(report, others)
            name = f"rank {report.rank} ({report.host})" if report.host else f"rank {report.rank}"
            late.append(LateRank(report.rank, stage, f"{name} is late: {symptom}; {cause}"))
    return late


def find_other_draws(reports: Sequence[RankReport]) -> str:
    """Return a sentence about ranks whose seed or mixture weights are not those of the first rank; "" if there are none."""
    running = [report for report in reports if report.draws and report.state != "over"]
    others = [
        report
        for report in running
        if report.loop == running[0].loop and report.draws != running[0].draws
    ]
    if not others:
        return ""
    examples = ", ".join(f"rank {one.rank} has {one.draws}" for one in (running[0], others[0]))
    return (
        f"{len(others)} of {len(reports)} ranks have another seed or other mixture weights than rank {running[0].rank}: "
        f"{examples}; so some samples come on several ranks and others on none, or their augmentation depends on the "
        "rank; give all ranks the same seed and weights"
    )


def _symptom(report: RankReport, others: Sequence[RankReport]) -> str:
    """Return the reason why a rank counts as late; "" if it is not late."""
    usual = median(one.wait_share for one in others)
    if report.wait_share >= usual + _MORE_WAITING:
        return (
            f"its training loop waits {report.wait_share:.0%} of the time for batches, that of the other ranks "
            f"{usual:.0%}"
        )
    rate = median(one.images_per_second for one in others)
    is_slower = rate >= _TIMES_SLOWER * report.images_per_second
    if is_slower and report.wait_share >= _LEAST_WAITING:
        return f"it has {report.images_per_second:.3g} images/s, the other ranks {rate:.3g}"
    return ""


def _cause(report: RankReport, others: Sequence[RankReport]) -> tuple[str, str]:
    """Return the stage that takes most time beyond the others' median, and a description."""
    usual = {stage: median(one.stages.get(stage, 0.0) for one in others) for stage in report.stages}
    more = {stage: seconds - usual[stage] for stage, seconds in report.stages.items()}
    stage = max(more, key=lambda one: more[one], default="")
    if not stage or report.stages[stage] < _TIMES_LONGER * usual[stage]:
        return "", (
            "no stage takes longer there, so it has fewer threads at work: compare its cores and num_threads"
        )
    seconds = report.stages[stage]
    where = f" (most often found at {report.file})" if stage == "read" and report.file else ""
    causes = [
        f"{stage}{where} takes {_times(seconds, usual[stage])} as long as on the median rank, {_milliseconds(seconds)} "
        f"per sample instead of {_milliseconds(usual[stage])}"
    ]
    core_share = report.core_shares.get(stage, 1.0)
    usual_share = median(one.core_shares.get(stage, 1.0) for one in others)
    if stage != "read" and core_share * _TIMES_AS_MANY <= usual_share:
        causes.append(
            f"its threads had a core for {core_share:.0%} of that time, elsewhere {usual_share:.0%}, so something else "
            "uses its cores"
        )
    for kind, count in report.whole_images.items():
        usual_share = median(one.whole_images.get(kind, 0) / one.samples for one in others)
        if count / report.samples > _TIMES_AS_MANY * usual_share:
            causes.append(
                f"{count} of its {report.samples} images are {kind}, elsewhere {usual_share:.0%}"
            )
    return stage, "; ".join(causes)


def _times(seconds: float, usual: float) -> str:
    if seconds >= _MAX_TIMES * usual:
        return f"more than {_MAX_TIMES} times"
    times = seconds / usual
    return f"{times:.1f} times" if times < 10 else f"{times:.0f} times"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"
