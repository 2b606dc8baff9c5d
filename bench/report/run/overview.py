"""The run in a few numbers."""

from bench.report.elements import data, note, section, tiles, warning
from bench.report.log import RunLog, number_of, object_of
from bench.report.markup import Markup, joined
from bench.report.numbers import NONE, count, plain, seconds, share
from dali_pipes.stats.table import shown_name
from readers.plural import counted

_MOST_NAMED = 5


def overview(log: RunLog) -> Markup:
    """Speed, waiting, the stage that limits, and what is wrong with the log."""
    last = log.last
    if not last:
        return section("overview", "Overview", _faults(log), note("The log has no numbers yet."))
    waited = number_of(last, "wait_share")
    limit = shown_name(str(last.get("limit") or NONE))
    entries = [
        ("speed", _speed(log), "after the first batch"),
        ("the loop waited", data(waited, share(waited, 1)), _meaning(limit)),
        ("limit", limit, "what to look at first"),
        ("samples", _count(log, "samples"), f"in {counted(int(number_of(last, 'steps')), 'step')}"),
        ("time", data(log.intervals[-1].ended, seconds(log.intervals[-1].ended)), _start(log)),
        ("bad samples", _count(log, "bad_samples"), "met, repeated ones counted again"),
    ]
    return section("overview", "Overview", _faults(log), tiles(entries), _loop(log), _pictures(log))


def _speed(log: RunLog) -> Markup:
    rate = number_of(log.last, "images_per_second")
    return data(rate, f"{plain(rate)} /s")


def _count(log: RunLog, name: str) -> Markup:
    number = number_of(log.last, name)
    return data(int(number), count(number))


def _start(log: RunLog) -> str:
    start = number_of(log.last, "start_seconds")
    return f"the first batch came after {seconds(start)}" if start else ""


def _meaning(limit: str) -> str:
    if limit == "training loop":
        return "of its time; batches were ready when it asked"
    return "of its time, for batches that were not ready"


def _faults(log: RunLog) -> Markup:
    """What is missing of the log."""
    faults = []
    if log.end is not None and log.end.get("stopped"):
        faults.append(warning(f"the run was ended by {log.end['stopped']}."))
    if log.end is None:
        until = f" at {seconds(log.intervals[-1].ended)}" if log.intervals else ""
        faults.append(
            warning(
                f"the log has no end: the run was stopped{until}, or was still going when this was written"
                + ("; its last line is torn" if log.is_torn else "")
                + "."
            )
        )
    if log.unread:
        named = ", ".join(map(str, log.unread[:_MOST_NAMED]))
        more = ", ..." if len(log.unread) > _MOST_NAMED else ""
        faults.append(
            warning(f"{counted(len(log.unread), 'line')} cannot be read (line {named}{more}).")
        )
    if log.num_others:
        faults.append(
            note(f"{counted(log.num_others, 'line')} of kinds that are not known here, left out.")
        )
    return joined(*faults)


def _loop(log: RunLog) -> Markup:
    """That nothing trained, or how a training step was played."""
    settings = object_of(log.start, "settings")
    if "step_ms" not in settings:
        return Markup()
    if settings["step_ms"] is None:
        return note(
            "Nothing trained in this run: the loop took batches as fast as they came and waited for each. The "
            "speed is that of the loader alone."
        )
    return note(f"A training step was played: {plain(number_of(settings, 'step_ms'))} ms of sleep.")


def _pictures(log: RunLog) -> Markup:
    """Images that our decoder leaves to others."""
    kinds = log.last.get("whole_images")
    if not isinstance(kinds, dict) or not kinds:
        return Markup()
    counts = {str(name): int(number_of(kinds, name)) for name in kinds}
    named = ", ".join(f"{count(many)} {name}" for name, many in counts.items() if many)
    if not named:
        return Markup()
    return note(f"Decoded whole, since our JPEG decoder does not take them: {named}.")
