"""Late: which rank lets the others wait, and in which stage it loses its time."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from dali_pipes.monitoring.ranks.rank_report import Note

# A rank is late if its training loop waits this share of the time more than the others' (median). In a run whose
# ranks step together the others then wait for it in a collective.
_MORE_WAITING = 0.15
# Where ranks do not wait for each other it is late if it is so many times slower than the others.
_TIMES_SLOWER, _LEAST_WAITING = 1.5, 0.3
# A stage is named from here on; what is less comes and goes.
_TIMES_LONGER = 1.3
_TIMES_AS_MANY = 2.0
_LEAST_SAMPLES = 2
_MOST_TIMES = 100


@dataclass(frozen=True, slots=True)
class Late:
    """A rank that is late.

    Attributes:
        rank: Which one.
        stage: The stage that takes longer there than elsewhere; "" if none does.
        text: One sentence.
    """

    rank: int
    stage: str
    text: str


def find_late(notes: Sequence[Note]) -> list[Late]:
    """Return the ranks that are late, the latest first.

    Args:
        notes: The latest note of each rank; only those of the same loop as most are compared, and of several batches.
    """
    there = _comparable(notes)
    found = []
    for note in there:
        others = [one for one in there if one.rank != note.rank]
        if others and (ground := _ground(note, others)):
            stage, said = _cause(note, others)
            text = f"{_name(note)} is late: {ground}; {said}"
            found.append((note.wait_share, Late(note.rank, stage, text)))
    return [late for _, late in sorted(found, key=lambda one: -one[0])]


def _comparable(notes: Sequence[Note]) -> list[Note]:
    usable = [note for note in notes if note.window_seconds > 0 and note.samples >= _LEAST_SAMPLES]
    loops = [note.loop for note in usable]
    usual = max(loops, key=loops.count, default="")
    return [note for note in usable if note.loop == usual]


def _ground(note: Note, others: Sequence[Note]) -> str:
    """Why a rank counts as late; "" if it does not."""
    usual = median(one.wait_share for one in others)
    if note.wait_share >= usual + _MORE_WAITING:
        return (
            f"its training loop waits {note.wait_share:.0%} of the time for batches, that of the other ranks "
            f"{usual:.0%}"
        )
    rate = median(one.images_per_second for one in others)
    slower = rate / note.images_per_second
    if slower >= _TIMES_SLOWER and note.wait_share >= _LEAST_WAITING:
        return f"it has {note.images_per_second:.3g} images/s, the other ranks {rate:.3g}"
    return ""


def _cause(note: Note, others: Sequence[Note]) -> tuple[str, str]:
    """The stage that costs a rank most time beyond the others' median, and what is said of it."""
    usual = {stage: median(one.stages.get(stage, 0.0) for one in others) for stage in note.stages}
    more = {stage: seconds - usual[stage] for stage, seconds in note.stages.items()}
    stage = max(more, key=lambda one: more[one], default="")
    if not stage or note.stages[stage] < _TIMES_LONGER * usual[stage]:
        return "", (
            "no stage takes longer there, so it has fewer threads at work: compare its cores and num_threads"
        )
    return stage, "; ".join(
        [
            _stage(note, stage, usual[stage]),
            *_cores(note, stage, others),
            *_whole_images(note, others),
        ]
    )


def _stage(note: Note, stage: str, usual: float) -> str:
    seconds = note.stages[stage]
    where = f" (most often found at {note.file})" if stage == "read" and note.file else ""
    return (
        f"{stage}{where} takes {_times(seconds, usual)} as long as on the median rank, {_shown(seconds)} per sample "
        f"instead of {_shown(usual)}"
    )


def _times(seconds: float, usual: float) -> str:
    if seconds >= _MOST_TIMES * usual:
        return f"more than {_MOST_TIMES} times"
    times = seconds / usual
    return f"{times:.1f} times" if times < 10 else f"{times:.0f} times"


def _cores(note: Note, stage: str, others: Sequence[Note]) -> list[str]:
    """Whether something else has the cores of a rank."""
    own = note.core_shares.get(stage, 1.0)
    usual = median(one.core_shares.get(stage, 1.0) for one in others)
    if stage == "read" or own * _TIMES_AS_MANY > usual:
        return []
    return [
        f"its threads had a core for {own:.0%} of that time, elsewhere {usual:.0%}, so something else uses its cores"
    ]


def _whole_images(note: Note, others: Sequence[Note]) -> list[str]:
    """The images that only this rank has to decode the slow way."""
    said = []
    for kind, count in note.whole_images.items():
        share = count / note.samples
        usual = median(one.whole_images.get(kind, 0) / one.samples for one in others)
        if share > _TIMES_AS_MANY * usual:
            said.append(f"{count} of its {note.samples} images are {kind}, elsewhere {usual:.0%}")
    return said


def _name(note: Note) -> str:
    return f"rank {note.rank} ({note.host})" if note.host else f"rank {note.rank}"


def _shown(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"
