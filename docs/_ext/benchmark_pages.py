"""The results of benchmarks, out of bench/results: a table, a plot, the method and the machine of each."""

import json
from collections.abc import Iterator
from html import escape
from pathlib import Path
from statistics import median
from typing import Any

from reference_pages import heading

RESULTS = Path(__file__).resolve().parents[2] / "bench" / "results"

SHOWN = {
    "cpu-jitter": "Images: loaders side by side",
    "cpu-jitter-float32": "Images: loaders side by side, in float32",
    "cpu-choice": "Images: every decoder and engine on a CPU",
    "cpu-video-everyone": "Video of 340 x 256: everyone",
    "cpu-video": "Video of 340 x 256",
    "cpu-video-720p": "Video of 1280 x 720",
    "cpu-video-720p-again": "Video of 1280 x 720, once more",
    "cpu-robots-av1-8-local": "Robots: AV1, 8 frames of each camera, in local order",
    "cpu-robots-av1-8-global": "Robots: AV1, 8 frames of each camera, in global order",
    "cpu-robots-av1-1-global": "Robots: AV1, 1 frame of each camera, in global order",
    "cpu-robots-h264-8-local": "Robots: H.264, 8 frames of each camera, in local order",
    "cpu-robots-h264-8-global": "Robots: H.264, 8 frames of each camera, in global order",
    "cpu-robots-h264-1-global": "Robots: H.264, 1 frame of each camera, in global order",
    "cpu-read": "Reading",
    "cpu-scale": "How cost grows",
    "overhead": "The host's path of a batch",
    "accuracy-cifar": "Trainings on CIFAR-10",
    "accuracy-boxes": "Trainings on boxes",
    "accuracy-video": "Trainings on videos",
    "accuracy-simclr": "Trainings by contrast",
}
"""Titles by file. Those of GPUs are the page docs/gpu.md."""

_RATES = ("images_per_second", "clips_per_second", "milliseconds")
_LONG = 200
Result = dict[str, Any]
Row = dict[str, Any]


def pages() -> Iterator[tuple[str, str]]:
    """Give one page with every result."""
    text = heading("Benchmark results", "=")
    text += (
        "Every file of ``bench/results/``, as it was written by the command that is named: all rows, with those that "
        "lost. What they mean, and what is lost where: :doc:`/speed`. Results of GPUs: :doc:`/gpu`. "
        "Absolute numbers of a shared machine vary by a factor of two: compare within a table.\n\n"
    )
    for name, title in SHOWN.items():
        text += heading(title, "-") + _result(json.loads((RESULTS / f"{name}.json").read_text()))
    yield "results.rst", text


def _result(result: Result) -> str:
    rows = result["rows"]
    rate = next((one for one in _RATES if one in rows[0]), None)
    text = _method(result)
    if "warm" in rows[0]:
        text += _reading(rows[0])
    elif rate and "name" in rows[0]:
        text += _chart(rows, rate) + _rates(rows, rate, result.get("ratios", {}))
    elif rate:
        text += _table([_growth(row, rate) for row in rows])
    else:
        text += _table(
            [{key: value for key, value in row.items() if _is_plain(value)} for row in rows]
        )
    text += "".join(f"- {_plain(verdict)}\n" for verdict in result.get("verdicts", ()))
    absent = result.get("absent") or ()
    text += "".join(
        f"- Not there: {_plain(one['name'])}: {_plain(one['reason'])}\n" for one in absent
    )
    return text + "\n"


def _method(result: Result) -> str:
    machine, settings = result["machine"], result["settings"]
    plain = {key: value for key, value in settings.items() if _is_plain(value)}
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    commit = str(result["commit"] or "")[:12]
    lines = {
        "Command": f"``{_typed(result['command'])}``, {result['time'][:10]}, commit {commit or 'not noted'}",
        "Settings": _plain(", ".join(f"{key} {value}" for key, value in plain.items())),
        "Machine": _plain(
            f"{machine['cores']} cores of {machine['cpu']}, {machine['memory_gib']} GiB, GPU: {machine['gpu'] or 'none'}, "
            f"load when it began: {machine['load_1_minute']}"
        ),
        "Versions": _plain(versions),
    }
    return "".join(f":{name}: {text}\n" for name, text in lines.items() if text) + "\n"


def _rates(rows: list[Row], rate: str, ratios: dict[str, Any]) -> str:
    cells = []
    for row in rows:
        told = {
            "pipeline": row["name"],
            "kind": row.get("kind", ""),
            f"median {_words(rate)}": _number(row[rate]["median"]),
        }
        told["range"] = f"{_number(row[rate]['min'])} to {_number(row[rate]['max'])}"
        told["note"] = row.get("note", "")
        cells.append({key: value for key, value in told.items() if value != "" or key == "note"})
    text = _table(cells)
    faster = [
        {
            "is this many times as fast as": name,
            "ours": other,
            "median of the rounds": one["median"],
        }
        for other, named in ratios.items()
        for name, one in named.items()
    ]
    return text + (_table(faster) if faster else "")


def _growth(row: Row, rate: str) -> Row:
    told = {key: value for key, value in row.items() if _is_plain(value)}
    return {**told, _words(rate): _number(row[rate]["median"])}


def _reading(row: Row) -> str:
    cells = []
    for name, warm in row["warm"].items():
        cold = row.get("cold", {}).get(name)
        cells.append(
            {
                "reader": name,
                "warm, samples/s": _number(median(one[0] for one in warm)),
                "cold, samples/s": _number(median(one[0] for one in cold)) if cold else "",
            }
        )
    return _table(cells)


def _chart(rows: list[Row], rate: str) -> str:
    """Return bars of the medians with lines from the smallest to the largest run, as SVG in the page."""
    most = max(row[rate]["max"] for row in rows)
    names = [row["name"][:44] for row in rows]
    height, left, width = 26, 8 * max(map(len, names)) + 8, 280
    parts = []
    for number, (name, row) in enumerate(zip(names, rows, strict=True)):
        ours = row["name"].startswith("gpu-aug")
        middle = number * height + height / 2
        low, centre, high = (
            left + width * row[rate][one] / most for one in ("min", "median", "max")
        )
        colour = "var(--color-brand-primary)" if ours else "currentColor"
        parts += [
            f'<text x="{left - 8}" y="{middle + 4:.0f}" text-anchor="end">{escape(name)}</text>',
            f'<rect x="{left}" y="{middle - 7:.0f}" width="{centre - left:.1f}" height="14" fill="{colour}" opacity="0.6"/>',
            f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{middle:.0f}" y2="{middle:.0f}" stroke="currentColor" stroke-width="2"/>',
            f'<text x="{high + 6:.1f}" y="{middle + 4:.0f}">{_number(row[rate]["median"])}</text>',
        ]
    label = "; ".join(f"{row['name']} {_number(row[rate]['median'])}" for row in rows)
    total = left + width + 70
    svg = (
        f'<svg viewBox="0 0 {total} {height * len(rows)}" role="img" aria-label="{escape(_words(rate))}: {escape(label)}" '
        f'style="width:100%;max-width:{total}px;font-size:13px;fill:currentColor">{"".join(parts)}</svg>'
    )
    return f".. raw:: html\n\n   {svg}\n\n*{_words(rate)}: bars are medians of the rounds, lines go from the least to the most.*\n\n"


def _table(rows: list[Row]) -> str:
    """Return a list table; columns are the keys of all rows, in the order in which they come."""
    keys = list(dict.fromkeys(key for row in rows for key in row))
    lines = [".. list-table::", "   :header-rows: 1", "   :class: results", ""]
    for row in [{key: key.replace("_", " ") for key in keys}, *rows]:
        for number, key in enumerate(keys):
            mark = "* -" if number == 0 else "  -"
            lines.append(f"   {mark} {_plain(_number(row.get(key, '')))}")
    return "\n".join(lines) + "\n\n"


def _is_plain(value: Any) -> bool:
    return value is not None and not isinstance(value, dict | list) and len(str(value)) < _LONG


def _typed(command: str) -> str:
    """Return the command that a result names as one types it."""
    return f"gpu-aug {command}" if command.startswith("bench ") else f"python -m bench.{command}"


def _words(rate: str) -> str:
    return rate.replace("_per_second", "/s")


def _number(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _plain(text: str) -> str:
    return "".join(f"\\{letter}" if letter in "\\*_|`" else letter for letter in text)
