"""Which attempts of a run led to its end, and what of each of them counts: told by their names, not by clocks.

Attempts form a tree: each goes on from the state of another one, which it names. Of two that go on from the same one,
the later counts: the one that stands behind the other in a file that has both, else the one that came further.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from dali_pipes.runs.audit_lines import Begin, Line, Part

ROOT = ""
"""Stands for what came before the first attempt that has a name: nothing, or the lines of an earlier version."""


@dataclass
class Attempt:
    """What the files say of an attempt.

    Attributes:
        name: Number and token, or ROOT.
        after: The attempt that it goes on from, as its lines say.
        before: The attempt in front of it in a file, which it replaces if it names no other.
        begin: Where it began; the first of them if its ranks do not agree.
        parts: What each file has of it.
        places: Its place among the attempts of each file that has it.
    """

    name: str
    after: str = ROOT
    before: str = ROOT
    begin: Begin | None = None
    parts: dict[int, list[Part]] = field(default_factory=dict)
    places: dict[int, int] = field(default_factory=dict)

    def reach(self) -> tuple[int, int]:
        """Epoch and position that it came to."""
        parts = (part for parts in self.parts.values() for part in parts)
        return max(((part.epoch, part.stop) for part in parts), default=(-1, 0))


def path_to_end(files: Sequence[Sequence[Line]], base: Sequence[Part]) -> list[Attempt]:
    """Return the attempts that led to the run's end, from the root on.

    Args:
        files: Lines of each file, from the first begin on that names an attempt.
        base: What remains of the lines in front of them.
    """
    attempts = {ROOT: Attempt(ROOT, parts={-1: list(base)})}
    for number, lines in enumerate(files):
        _add_file(attempts, number, lines)
    children: dict[str, list[Attempt]] = {}
    for attempt in attempts.values():
        if attempt.name != ROOT:
            parent = attempt.after if attempt.after in attempts else ROOT
            parent = attempt.before if parent == ROOT else parent
            children.setdefault(parent, []).append(attempt)
    path = [attempts[ROOT]]
    while found := children.pop(path[-1].name, []):
        path.append(found[0] if len(found) == 1 else _latest(found, children))
    return path


def remaining(path: Sequence[Attempt]) -> list[Part]:
    """Return the parts of these attempts that lie before all later ones."""
    kept: list[Part] = []
    limits: list[Begin] = []  # of the later attempts, those that went back furthest
    for attempt in reversed(path):
        for parts in attempt.parts.values():
            kept += [part for part in parts if all(limit.follows(part) for limit in limits)]
        if (begin := attempt.begin) is not None:
            epoch = min([begin.start[0], *(limit.start[0] for limit in limits)])
            limits = [limit for limit in [*limits, begin] if limit.start[0] == epoch]
    return kept


def _add_file(attempts: dict[str, Attempt], number: int, lines: Sequence[Line]) -> None:
    """Take up what one file says."""
    before, place = ROOT, 0
    parts: list[Part] = []
    for line in lines:
        if isinstance(line, Part):
            parts.append(line)
            continue
        name = line.attempt or f"{line.key}"  # of an earlier version that was used in between
        attempt = attempts.setdefault(name, Attempt(name))
        attempt.after = line.after or attempt.after
        if before != name:
            attempt.before = attempt.before or before
        if attempt.begin is None or line.start < attempt.begin.start:
            attempt.begin = line
        attempt.parts[number] = parts = []  # a name that comes again is a start from the same state
        attempt.places[number] = place = place + 1
        before = name


def _latest(siblings: Sequence[Attempt], children: dict[str, list[Attempt]]) -> Attempt:
    """Return the one of several attempts from one state that the run went on with."""
    trees = [list(_tree(one, children)) for one in siblings]
    last = [
        {
            number: max(one.places[number] for one in tree if number in one.places)
            for number in {number for one in tree for number in one.places}
        }
        for tree in trees
    ]
    best: list[tuple[bool, tuple[int, int], str, Attempt]] = []
    for own, tree, sibling in zip(last, trees, siblings, strict=True):
        is_last = not any(
            other[number] > place
            for other in last
            for number, place in own.items()
            if number in other
        )
        best.append((is_last, max(one.reach() for one in tree), sibling.name, sibling))
    return max(best, key=lambda one: one[:3])[3]


def _tree(attempt: Attempt, children: dict[str, list[Attempt]]) -> Iterator[Attempt]:
    """An attempt and all that went on from it."""
    left, seen = [attempt], set()
    while left:
        one = left.pop()
        if one.name not in seen:
            seen.add(one.name)
            yield one
            left += children.get(one.name, [])
