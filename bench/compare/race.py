"""A race: all contestants are started and checked, and then take turns."""

import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence

from bench.compare.contestant import Contestant, Distant, Footing, Kind, Made, Unable
from bench.compare.lineup import Entry
from bench.compare.result import Absent, Comparison, Row
from bench.compare.timer import Rate, Slice, rotated, synchronise, time_slice
from bench.timing.usage import Busy, mean_of

Progress = Callable[[str], None]

_REST_SECONDS_MAX = 3.0


def opened(
    entries: Sequence[Entry], footing: Footing, comparison: Comparison, progress: Progress
) -> Iterator[Contestant]:
    """Start all contestants, let each make a batch, and check that it has the required form.

    Args:
        entries: In the order in which they are started.
        footing: What everyone gets.
        comparison: Gets those that cannot take part, with the reason.
        progress: Gets a line of text for every one.
    """
    for entry in entries:
        progress(f"warming up: {entry.name}")
        contestant: Contestant | None = None
        try:
            contestant = entry.enter(footing)
            contestant.open()
            _check(contestant, footing)
            _rest(contestant, None, footing)
        except Exception as error:  # noqa: BLE001 - a peer may raise anything; the result names it
            if contestant is not None:
                contestant.close()
            comparison.absent.append(_absent(entry.name, entry.kind, error))
        else:
            yield contestant


def race(
    contestants: Sequence[Contestant],
    footing: Footing,
    seconds: float,
    rounds: int,
    comparison: Comparison,
    progress: Progress,
) -> None:
    """Give each contestant a turn in every round, so that noise affects all equally.

    Args:
        contestants: Open ones.
        footing: What everyone got.
        seconds: Length of each turn.
        rounds: Turns of each.
        comparison: Gets the rows, and those that crash on the way.
        progress: Gets a line of text for every turn.
    """
    slices: dict[str, list[Slice]] = {contestant.name: [] for contestant in contestants}
    looks: dict[str, list[Busy]] = {contestant.name: [] for contestant in contestants}
    running = list(contestants)
    for number in range(rounds):
        for contestant in rotated(running, number):
            progress(f"round {number + 1} of {rounds}: {contestant.name}")
            try:
                with Busy(footing.device) as busy:
                    turn = _turn(contestant, seconds, footing)
            except Exception as error:  # noqa: BLE001 - as above
                running.remove(contestant)
                comparison.absent.append(_absent(contestant.name, contestant.kind, error))
                continue
            slices[contestant.name].append(turn)
            looks[contestant.name].append(busy)
            _rest(contestant, turn, footing)
    for contestant in running:
        progress(f"where the time goes: {contestant.name}")
        used = mean_of(looks[contestant.name])
        row = _row(contestant, slices[contestant.name], footing.num_frames, used)
        comparison.rows.append(row)


def _turn(contestant: Contestant, seconds: float, footing: Footing) -> Slice:
    if isinstance(contestant, Distant):
        return contestant.turn(seconds)
    return time_slice(
        contestant.next_batch,
        seconds=seconds,
        discard=contestant.num_discard,
        finish=lambda: synchronise(footing.device),
    )


def _check(contestant: Contestant, footing: Footing) -> None:
    if isinstance(contestant, Distant):
        made = contestant.made()
    else:
        made = Made.of(contestant.next_batch())
    if contestant.kind == "ceiling":
        return
    if (made.shape, made.dtype) != (footing.shape, footing.dtype):
        raise Unable(
            f"made {made.dtype} {list(made.shape)}, not {footing.dtype} {list(footing.shape)}"
        )
    if made.device != footing.device:
        raise Unable(f"left the batch on {made.device}, not on {footing.device}")


def _row(
    contestant: Contestant, turns: list[Slice], num_frames: int, busy: Mapping[str, int]
) -> Row:
    wait = sum(turn.wait_seconds for turn in turns) / sum(turn.seconds for turn in turns)
    return Row(
        contestant.name,
        contestant.kind,
        Rate(tuple(turn.images_per_second for turn in turns)),
        {**contestant.share(), "wait": round(wait, 3)},
        contestant.note,
        num_frames,
        busy,
    )


def _rest(contestant: Contestant, turn: Slice | None, footing: Footing) -> None:
    """Wait until a contestant has filled its queue and no longer takes the cores from the next one."""
    rate = turn.images_per_second if turn else 300.0
    time.sleep(min(_REST_SECONDS_MAX, contestant.num_ahead * footing.batch_size / max(rate, 1.0)))


def _absent(name: str, kind: Kind, error: Exception) -> Absent:
    # A worker's error quotes a whole traceback, of which the last line says what happened.
    lines = str(error).strip().splitlines() or [""]
    text = lines[-1] if "Traceback" in str(error) else " ".join(" ".join(lines).split())[:300]
    if isinstance(error, Unable):
        return Absent(name, kind, text)
    trace = "".join(traceback.format_exception(error)) + getattr(error, "trace", "")
    return Absent(name, kind, f"{type(error).__name__}: {text}", trace)
