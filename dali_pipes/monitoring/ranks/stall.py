"""What is said of a loop that gets no batch: what its threads do, at which files, and who else waits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dali_pipes.monitoring.ranks.rank_report import Note
from dali_pipes.monitoring.ranks.threads_now import Thread, file_at, loader_threads, stack_lines
from dali_pipes.monitoring.ranks.timeout import within
from dali_pipes.monitoring.recorder import Recorder, Running

_WORDS_SECONDS = 2.0  # a dataset that hangs may not give its keys
_NUM_NAMED = 8  # ranks that are named one by one


@dataclass(frozen=True, slots=True)
class Stall:
    """A loop that waits for a batch.

    Attributes:
        who: The rank, its machine and process.
        epoch: The epoch of the loop.
        step: Which batch of it, counted from 0.
        seconds: For how long.
        still_seconds: For how long no call of a stage has ended.
        done: Calls of stages that ended meanwhile, by stage.
        looping: The thread of the training loop.
        others: What the other ranks say of themselves; None where they cannot be asked.
    """

    who: str
    epoch: int
    step: int
    seconds: float
    still_seconds: float
    done: Mapping[str, int]
    looping: int | None
    others: Sequence[Note] | None

    def text(self, recorder: Recorder, account: str) -> str:
        """Return the whole message; `account` is what other processes that make batches say of themselves."""
        at = brief(recorder.running())
        parts = [
            f"{self.who} has waited {self.seconds:.0f} s for batch {self.step} of epoch {self.epoch}"
            f"{at and f' (longest at work: {at})'}; {self._progress()}",
            *([] if self.others is None else [_others(self.others, self.step)]),
            describe_threads(recorder, self.looping),
            account,
        ]
        return "\n".join(part for part in parts if part)

    def _progress(self) -> str:
        if self.still_seconds >= self.seconds / 2:
            return f"nothing has moved for {self.still_seconds:.0f} s"
        done = [f"{count} of {stage}" for stage, count in self.done.items() if count]
        return f"it goes on, slowly: calls that have ended are {', '.join(done)}"


def describe_threads(recorder: Recorder, looping: int | None = None) -> str:
    """Say what the threads of loaders in this process do, and where they are.

    Args:
        recorder: Knows what they work on.
        looping: The thread of the training loop.
    """
    running = {one.ident: one for one in recorder.running()}
    busy = [one for one in loader_threads(looping) if not one.is_idle]
    lines = [f"  {_doing(one, running.get(one.ident), looping)}" for one in busy]
    num_idle = sum(one.is_idle for one in loader_threads())
    idle = [f"  {num_idle} more threads have nothing to do"] if num_idle else []
    return "\n".join(["What its threads do:", *lines, *idle, "Where they are:", *_stacks(busy)])


def brief(running: Sequence[Running], threads: Sequence[Thread] | None = None) -> str:
    """Say in a few words what has been under way for longest: stage, file, seconds; "" if nothing is."""
    if not running:
        return ""
    longest = max(running, key=lambda one: one.seconds)
    there = loader_threads(longest.ident) if threads is None else threads
    own = [one for one in there if one.ident == longest.ident]
    pools = [one for one in there if "gpu-aug-" in one.name and not one.is_idle]
    others = longest.stage != "read"
    found = [file_at(one.frame, of_readers=others).file for one in [*own, *pools]]
    where = next((f" {file}" for file in found if file), "")
    return f"{longest.stage}{where}, {longest.seconds:.0f} s"


def _doing(thread: Thread, running: Running | None, looping: int | None) -> str:
    at = file_at(thread.frame, of_readers=running is None or running.stage != "read")
    name = f"{thread.name} (the training loop)" if thread.ident == looping else thread.name
    if running is None:
        waits = "waits" if thread.ident == looping else "is in no stage"
        return f"{name}: at {at}" if at.file else f"{name}: {waits}"
    words = within(_WORDS_SECONDS, lambda: str(running.work or ""), "")
    known = ", ".join(part for part in (words, f"at {at}" if at.file else "") if part)
    return f"{name}: {running.stage} for {running.seconds:.1f} s{': ' if known else ''}{known}"


def _stacks(threads: Sequence[Thread]) -> list[str]:
    """The stacks of threads, each once with all who share it."""
    names: dict[tuple[str, ...], list[str]] = {}
    for thread in threads:
        names.setdefault(tuple(stack_lines(thread.frame)), []).append(thread.name)
    lines = []
    for stack, who in names.items():
        lines += [f"  {', '.join(who)}:", *(f"    {line}" for line in stack)]
    return lines


def _others(notes: Sequence[Note], step: int) -> str:
    """Who waits for this rank, and who for a loader of its own."""
    past = [note for note in notes if note.state == "training loop" and note.steps > step]
    too = [note for note in notes if note.state == "loader"]
    rest = [note for note in notes if note not in past and note not in too]
    groups = {
        "past this batch and in the training loop, where a collective would wait for this rank": past,
        "waiting for a loader of their own": too,
        "elsewhere": rest,
    }
    said = [f"{where}: {_ranks(there)}" for where, there in groups.items() if there]
    return f"The other ranks are {'; '.join(said) if said else 'not heard of'}"


def _ranks(notes: Sequence[Note]) -> str:
    named = [
        f"rank {note.rank} (for {note.state_seconds + note.age_seconds:.0f} s"
        f"{f', at {note.waits_for}' if note.waits_for else ''})"
        for note in notes[:_NUM_NAMED]
    ]
    more = f" and {len(notes) - _NUM_NAMED} more" if len(notes) > _NUM_NAMED else ""
    return f"{', '.join(named)}{more}"
