"""The section about bad samples: which, why, and what can be decoded of them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.report.elements import Card, Gallery, Part, Section, Share, note, section, table
from bench.report.log import Object, number_of
from bench.report.numbers import count
from bench.report.thumbnails import Thumbnail
from readers import BadSample
from readers.plural import counted

_MOST_LISTED = 500
_MOST_REASONS = 12
_MOST_LETTERS = 300  # of a reason


@dataclass(frozen=True)
class Bad:
    """A bad sample.

    Attributes:
        index: In the dataset.
        key: Its key.
        stage: Where it was noticed.
        reason: What is wrong with it.
        times: How often a run met it.
        where: Epoch and step in which a run met it first; "" without a run.
    """

    index: int
    key: str
    stage: str
    reason: str
    times: int = 1
    where: str = ""

    @property
    def place(self) -> tuple[int, str]:
        """Its index and key."""
        return self.index, self.key


def bad_of_log(records: Sequence[Object]) -> list[Bad]:
    """Return the bad samples of a run, each once, with how often it was met."""
    times = Counter(map(_place, records))
    first = {_place(record): record for record in reversed(records)}
    return [
        Bad(*place, str(one.get("stage", "")), _short(one.get("reason", "")), many, _where(one))
        for place, many in times.items()
        for one in [first[place]]
    ]


def bad_of_data(found: Sequence[BadSample]) -> list[Bad]:
    """Return the bad samples of an inspection."""
    return [Bad(one.index, one.key, one.stage, _short(one.reason)) for one in found]


def bad_section(
    name: str,
    heading: str,
    bad: Sequence[Bad],
    num_bad: int,
    pictures: Mapping[tuple[int, str], Thumbnail],
    why_none: str = "",
    noun: str = "bad sample",
) -> Section | None:
    """Return the section: reasons, pictures and a list.

    Args:
        name: The anchor.
        heading: The heading.
        bad: Each sample once.
        num_bad: How many were counted, of which `bad` may be the first.
        pictures: Pictures of some of them, by index and key.
        why_none: Why there are no pictures.
        noun: What one of them is called.
    """
    if not bad:
        return section(name, heading, note("None."))
    more = max(num_bad - sum(one.times for one in bad), 0)
    parts = [note(f"Without pictures: {why_none}.")] if why_none else _gallery(bad, pictures)
    return section(
        name,
        heading,
        note(f"{count(more)} more are counted and not listed.", when=more),
        _reasons(bad),
        *parts,
        _list(bad, noun),
    )


def _reasons(bad: Sequence[Bad]) -> Part | None:
    reasons = Counter((one.stage, one.reason) for one in bad)
    caption = "Reasons"
    if len(reasons) > _MOST_REASONS:
        caption = f"The most common of {counted(len(reasons), 'reason')}"
    rows = [
        (stage, count(many), Share(many, len(bad)), reason)
        for (stage, reason), many in reasons.most_common(_MOST_REASONS)
    ]
    return table(caption, ["noticed while", "samples", "share", "reason"], rows)


def _gallery(
    bad: Sequence[Bad], pictures: Mapping[tuple[int, str], Thumbnail]
) -> list[Part | None]:
    tried = [one for one in bad if one.place in pictures]
    cards = [
        Card(one.key, f"{one.stage}: {one.reason}", pictures[one.place])
        for one in tried
        if not pictures[one.place].fault
    ]
    if not cards:
        return [note(f"Of the first {count(len(tried))} none can be decoded at all.", when=tried)]
    words = f"{counted(len(cards), 'picture')} of the first {count(len(tried))}; missing parts are gray or black."
    return [note(words), Gallery(cards)]


def _list(bad: Sequence[Bad], noun: str) -> Part | None:
    ran = any(one.where for one in bad)
    what = counted(len(bad), noun)
    if len(bad) > _MOST_LISTED:
        what = f"the first {_MOST_LISTED} of {what}"
    headings = ["index", "key", "noticed while", "reason", *(["first met", "times"] if ran else [])]
    rows = [
        (one.index, one.key, one.stage, one.reason, *((one.where, one.times) if ran else ()))
        for one in bad[:_MOST_LISTED]
    ]
    return table(f"List of {what}", headings, rows, folded=True)


def _short(reason: object) -> str:
    text = str(reason)
    return text if len(text) <= _MOST_LETTERS else text[: _MOST_LETTERS - 1] + "…"


def _place(record: Object) -> tuple[int, str]:
    return int(number_of(record, "index")), str(record.get("key", ""))


def _where(record: Object) -> str:
    kept = ", kept" if record.get("kept") is True else ""
    return f"epoch {int(number_of(record, 'epoch'))}, step {int(number_of(record, 'step'))}{kept}"
