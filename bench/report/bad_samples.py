"""Show bad samples of a run or of data: their keys, the reasons, and what can be decoded of them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bench.report.log import Object, number_of
from bench.report.numbers import Share, count
from bench.report.pictures import Card, bad_pictures
from readers import BadSample, Dataset
from readers.formats.stream import TarStream

_MOST_LISTED = 500
_MOST_REASONS = 12
_MOST_LETTERS = 300  # largest length of a reason


def bad_of_log(records: Sequence[Object]) -> dict[BadSample, tuple[str, int]]:
    """Return the bad samples of a run; for each, where it was first met, and how often it was met."""
    met: dict[tuple[int, str], list[Object]] = {}
    for record in records:
        sample = int(number_of(record, "index")), str(record.get("key", ""))
        met.setdefault(sample, []).append(record)
    found = {}
    for sample, [first, *others] in met.items():
        stage: Any = str(first.get("stage", ""))
        bad = BadSample(*sample, stage, str(first.get("reason", "")))
        where = f"epoch {int(number_of(first, 'epoch'))}, step {int(number_of(first, 'step'))}"
        kept = ", kept" if first.get("kept") is True else ""
        found[bad] = where + kept, 1 + len(others)
    return found


def bad_values(
    given: Sequence[BadSample],
    num_bad: int,
    dataset: Dataset | TarStream | None,
    met: Mapping[BadSample, tuple[str, int]],
) -> dict[str, Any]:
    """Return the values that the page's section of bad samples shows.

    Args:
        given: The samples, without duplicates.
        num_bad: Count of all bad samples; `given` may only have the first of these.
        dataset: The dataset from which pictures of the samples are drawn; None shows no pictures.
        met: For a run, where each sample was first met, and how often it was met; empty for data.
    """
    bad = [replace(one, reason=_shortened(one.reason)) for one in given]
    pictures = bad_pictures(dataset, bad) if dataset is not None else []
    cards = [
        Card(one.key, f"{one.stage}: {one.reason}", picture)
        for one, picture in zip(bad, pictures, strict=False)
        if not picture.fault
    ]
    reasons = Counter((one.stage, one.reason) for one in bad)
    num_listed = sum(many for _, many in met.values()) if met else len(bad)
    return {
        "bad": bad,
        "num_unlisted": max(num_bad - num_listed, 0),
        "num_reasons": len(reasons),
        "reasons": [
            (stage, count(many), Share(many, len(bad)), reason)
            for (stage, reason), many in reasons.most_common(_MOST_REASONS)
        ],
        "num_tried": len(pictures),
        "cards": cards,
        "rows": [
            (one.index, one.key, one.stage, one.reason, *met.get(original, ()))
            for one, original in zip(bad[:_MOST_LISTED], given, strict=False)
        ],
        "was_run": bool(met),
    }


def _shortened(reason: str) -> str:
    return reason if len(reason) <= _MOST_LETTERS else reason[: _MOST_LETTERS - 1] + "…"
