"""Bad samples: which, why, and what is left of them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.report.elements import code, data, folded, note, section, table
from bench.report.log import Object, number_of
from bench.report.markup import Markup, tag
from bench.report.numbers import count, share
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
        key: For people.
        stage: Where it was noticed.
        reason: What is wrong with it.
        times: How often it was met.
        where: When it was met first; "" where nobody ran over it.
    """

    index: int
    key: str
    stage: str
    reason: str
    times: int = 1
    where: str = ""

    @property
    def place(self) -> tuple[int, str]:
        """What tells it from others."""
        return self.index, self.key


def bad_of_log(records: Sequence[Object]) -> list[Bad]:
    """Bad samples of a run, each once."""
    times = Counter(_place(record) for record in records)
    first: dict[tuple[int, str], Object] = {}
    for record in records:
        first.setdefault(_place(record), record)
    return [
        Bad(
            *place,
            str(record.get("stage", "")),
            str(record.get("reason", "")),
            times[place],
            _where(record),
        )
        for place, record in first.items()
    ]


def bad_of_data(found: Sequence[BadSample]) -> list[Bad]:
    """Bad samples that an inspection found."""
    return [Bad(one.index, one.key, one.stage, one.reason) for one in found]


def bad_samples(
    name: str,
    heading: str,
    bad: Sequence[Bad],
    num_bad: int,
    pictures: Mapping[tuple[int, str], Thumbnail],
    why_none: str = "",
    noun: str = "bad sample",
) -> Markup:
    """Reasons, pictures and a list.

    Args:
        name: Of the section.
        heading: Of the section.
        bad: Each once.
        num_bad: How many were counted, of which `bad` may be the first.
        pictures: Of some of them, by index and key.
        why_none: Why there are no pictures.
        noun: What one of them is.
    """
    if not bad:
        return section(name, heading, note("None."))
    more = max(num_bad - sum(one.times for one in bad), 0)
    return section(
        name,
        heading,
        note(f"{count(more)} more are counted and not listed.") if more else "",
        _reasons(bad),
        note(f"Without pictures: {why_none}.") if why_none else _gallery(bad, pictures),
        _list(bad, noun),
    )


def _reasons(bad: Sequence[Bad]) -> Markup:
    reasons = Counter((one.stage, _short(one.reason)) for one in bad)
    rows = [
        [
            stage,
            data(many, count(many)),
            share(many, len(bad)),
            tag("span", reason, class_="words"),
        ]
        for (stage, reason), many in reasons.most_common(_MOST_REASONS)
    ]
    caption = "Reasons"
    if len(reasons) > _MOST_REASONS:
        caption = f"The most common of {counted(len(reasons), 'reason')}"
    return table(["noticed while", "samples", "share", "reason"], rows, caption=caption)


def _gallery(bad: Sequence[Bad], pictures: Mapping[tuple[int, str], Thumbnail]) -> Markup:
    drawn = [one for one in bad if one.place in pictures and not pictures[one.place].fault]
    cards = [
        tag(
            "figure",
            pictures[one.place].markup(f"what can be decoded of sample {one.key}"),
            tag("figcaption", code(one.key), tag("span", f"{one.stage}: {_short(one.reason)}")),
        )
        for one in drawn
    ]
    tried = sum(one.place in pictures for one in bad)
    if not tried:
        return Markup()
    words = f"{counted(len(drawn), 'picture')} of the first {count(tried)}, as far as they can be decoded: what is missing is gray or black"
    return Markup(
        note(words + "." if drawn else f"Of the first {count(tried)} none can be decoded at all.")
        + (tag("div", *cards, class_="gallery") if cards else "")
    )


def _list(bad: Sequence[Bad], noun: str) -> Markup:
    ran = any(one.where for one in bad)
    headings = ["index", "key", "noticed while", "reason", *(["first met", "times"] if ran else [])]
    rows = [
        [
            str(one.index),
            code(one.key),
            one.stage,
            tag("span", _short(one.reason), class_="words"),
            *([tag("span", one.where), str(one.times)] if ran else []),
        ]
        for one in bad[:_MOST_LISTED]
    ]
    what = counted(len(bad), noun)
    if len(bad) > _MOST_LISTED:
        what = f"the first {_MOST_LISTED} of {what}"
    return folded(f"List of {what}", table(headings, rows, caption=f"List of {what}"), is_long=True)


def _short(text: str) -> str:
    return text if len(text) <= _MOST_LETTERS else text[: _MOST_LETTERS - 1] + "…"


def _place(record: Object) -> tuple[int, str]:
    return int(number_of(record, "index")), str(record.get("key", ""))


def _where(record: Mapping[str, Any]) -> str:
    kept = ", kept" if record.get("kept") is True else ""
    return f"epoch {int(number_of(record, 'epoch'))}, step {int(number_of(record, 'step'))}{kept}"
