"""Compute from the log of a run the values that `templates/run.html` shows about it."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from bench.report.charts import Chart, time_chart
from bench.report.log import Object, RunLog, Timeline, number_of, object_of
from bench.report.numbers import NONE, Share, count, plain, seconds, share, size
from dali_pipes.monitoring.stage_stats import shown_name
from dali_pipes.monitoring.stats import ENOUGH_CORES

_MOST_EPOCHS = 50  # rows of the table
_HAVE_OWN_TABLE = ("kind", "explain", "settings", "versions", "machine")

Rows = list[tuple[object, ...]]


def run_values(log: RunLog) -> dict[str, Any]:
    """Return the values of the template by name."""
    last, stats = log.last, object_of(log.end or {}, "stats")
    epochs = [(name, one) for name, one in stats.items() if isinstance(one, dict)]
    named = object_of(last, "stages").items()
    stages: dict[str, Object] = {name: one for name, one in named if isinstance(one, dict)}
    busy = sum(number_of(one, "busy_seconds") for one in stages.values())
    in_full = object_of(last, "whole_images")
    decoded_in_full = {name: number_of(in_full, name) for name in in_full}
    return {
        "log": log,
        "last": last,
        "limit": _limit(last),
        "settings": object_of(log.start, "settings"),
        "decoded_in_full": [
            f"{count(many)} {name}" for name, many in decoded_in_full.items() if many
        ],
        "charts": _charts(log) if last else [],
        "epochs": [_epoch_row(*one) for one in epochs[:_MOST_EPOCHS]],
        "num_later_epochs": max(len(epochs) - _MOST_EPOCHS, 0),
        "stages": stages,
        "busy": busy,
        "has_few_cores": 0 < number_of(last, "core_share") < ENOUGH_CORES,
        "stage_rows": [
            _stage_row(name, one, busy)
            for name, one in stages.items()
            if number_of(one, "busy_seconds") > 0
        ],
        "wait_rows": _wait_rows(stages),
        "coverage": object_of(log.end or {}, "coverage"),
        "coverage_rows": _coverage_rows(object_of(log.end or {}, "coverage")),
        "setup": _setup(log.start),
    }


def _charts(log: RunLog) -> list[Chart]:
    line = log.timeline()
    rates = {"mean": line.gained_per_second("samples")}
    band = line.lowest, line.highest
    speed = time_chart("Speed", line.edges, rates, "samples/s", band=band, epochs=log.epochs)
    if waiting := _waiting(line):
        title = "Waiting of the loop, by the stages that worked meanwhile"
        return [speed, time_chart(title, line.edges, waiting, "share of the time")]
    return [speed]


def _waiting(line: Timeline) -> dict[str, Any]:
    """Return for each stage the share of each interval that the loop waited for it, by a name that has the total."""
    last = line.counts[-1]
    late = {name: number_of(last, "late", name) for name in object_of(last, "late")}
    total = sum(late.values())
    ranked = sorted(late.items(), key=lambda item: -item[1])
    return {
        f"{shown_name(name)}: {seconds(waited)}, {share(waited, total)}": np.minimum(
            line.gained_per_second("late", name), 1
        )
        for name, waited in ranked
        if waited > 0
    }


def _limit(stats: Object) -> str:
    return shown_name(str(stats.get("limit") or NONE))


def _epoch_row(name: str, stats: Object) -> tuple[object, ...]:
    return (
        name,
        plain(number_of(stats, "images_per_second")),
        count(number_of(stats, "samples")),
        seconds(number_of(stats, "start_seconds")),
        seconds(number_of(stats, "seconds")),
        Share(number_of(stats, "wait_share"), 1),
        _limit(stats),
    )


def _stage_row(name: str, stage: Object, total: float) -> tuple[object, ...]:
    busy, cpu = number_of(stage, "busy_seconds"), number_of(stage, "cpu_seconds")
    num_bytes = number_of(stage, "bytes")
    return (
        shown_name(name),
        Share(busy, total),
        seconds(busy),
        share(min(cpu, busy), busy if "cpu_seconds" in stage else 0),
        count(number_of(stage, "calls")),
        count(number_of(stage, "samples")),
        size(num_bytes) if num_bytes else NONE,
        *(seconds(number_of(stage, f"p{percent}_seconds")) for percent in (50, 90, 99)),
    )


def _wait_rows(stages: Mapping[str, Object]) -> Rows:
    """Return the waits inside the loader, the longest first."""
    waits = [
        (number_of(one, "waits", what, "seconds"), stage, what)
        for stage, one in stages.items()
        for what in object_of(one, "waits")
    ]
    return [
        (
            shown_name(stage),
            what,
            count(number_of(stages[stage], "waits", what, "count")),
            seconds(waited),
        )
        for waited, stage, what in sorted(waits, reverse=True)
    ]


def _coverage_rows(coverage: Object) -> Rows:
    """Return rows with how many different samples the last epoch had, and how many it lacked."""
    of, came = number_of(coverage, "of"), number_of(coverage, "samples")
    numbers = {
        "came": came,
        "handed over once more": number_of(coverage, "repeated"),
        "never came": max(of - came, 0),
    }
    return [(name, count(many), Share(many, of)) for name, many in numbers.items() if of > 0]


def _setup(start: Object) -> dict[str, Iterable[tuple[object, ...]]]:
    """Return tables by title: the choices with reasons, and everything that is needed to run it again."""
    explain = start.get("explain")
    lines = explain.splitlines() if isinstance(explain, str) else []
    pairs = [line.partition(": ") for line in lines if line.strip()]
    rest = {name: one for name, one in start.items() if name not in _HAVE_OWN_TABLE}
    settings, versions, machine = (
        list(_flat(object_of(start, name)).items()) for name in ("settings", "versions", "machine")
    )
    return {
        "The run": list(_flat(rest).items()),
        "What was chosen, and why": [
            (subject, reason) if reason else ("also", subject) for subject, _, reason in pairs
        ],
        "Settings": [pair for pair in settings if pair[0] not in rest],
        "Versions": versions,
        "Machine": machine,
    }


def _flat(values: Mapping[str, Any], before: str = "") -> dict[str, str]:
    """Return the values of nested objects as text, by names such as "cache.size"."""
    found: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{before}{name}.")
        else:
            found[f"{before}{name}"] = _in_words(value)
    return found


def _in_words(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_in_words, value))
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return NONE if value is None else str(value)
