"""The pictures: what the tables say, where a line says it better."""

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.chart import Panel, Series, draw_chart
from bench.gpu_report.bars import Bar, Bars, draw_bars
from bench.gpu_report.markdown import is_number
from bench.gpu_report.read import Device
from bench.gpu_report.rows import Measured, measured

_SIZE = re.compile(r"(\d+)x(\d+)")
_DALI = re.compile(r"(\d+x\d+), batch (\d+), load ([\d.]+|None), fancy True")
_OTHER = re.compile(r"(?P<what>.+?) (?P<size>\d+x\d+), batch (?P<batch>\d+)")
_CUT = re.compile(r"(\d+x\d+) cut ([\d.]+), (.+)")
_AIM = 0.6  # of a copy


@dataclass(frozen=True)
class Plot:
    """A picture.

    Attributes:
        name: Of its file, without prefix and ending.
        words: What is to be seen.
        svg: The picture.
    """

    name: str
    words: str
    svg: str


def plots(device: Device) -> list[Plot]:
    """Every picture for which something was measured."""
    return [
        Plot(name, words, svg) for name, (words, draw) in _PLOTS.items() if (svg := draw(device))
    ]


def _good(device: Device, step: str) -> list[Measured]:
    if step not in device.steps:
        return []
    return [row for row in measured(device.steps[step]) if row.speed]


def _speed(row: Measured) -> float:
    assert row.speed is not None
    return row.speed


def _lines(
    found: Mapping[str, Sequence[tuple[float, Measured]]],
    up: Callable[[float], float] = lambda speed: speed,
) -> list[Series]:
    """A series of each name's (x, row), in order of x, with the range of the runs."""
    series = []
    for name, points in found.items():
        ordered = sorted(points, key=lambda point: point[0])
        ranges = [
            (up(min(row.runs)), up(max(row.runs)))
            if row.runs and min(row.runs) > 0
            else (up(_speed(row)),) * 2
            for _, row in ordered
        ]
        places = [(x, up(_speed(row))) for x, row in ordered]
        series.append(Series(name, places, ranges=ranges))
    return series


def _decode(device: Device) -> str:
    """Of every decoder the fastest setting at each size."""
    best: dict[str, dict[float, Measured]] = defaultdict(dict)
    for row in [*_good(device, "decode-dali"), *_good(device, "decode-others")]:
        other = None if row.step == "decode-dali" else _OTHER.fullmatch(row.name)
        name = "DALI" if row.step == "decode-dali" else other["what"] if other else None
        size = _SIZE.search(row.name)
        if name is None or size is None:
            continue
        megapixels = int(size[1]) * int(size[2]) / 1e6
        before = best[name].get(megapixels)
        if before is None or _speed(row) > _speed(before):
            best[name][megapixels] = row
    if not best:
        return ""
    images = _lines({name: list(points.items()) for name, points in best.items()})
    pixels = [Series(series.name, [(x, x * y) for x, y in series.points]) for series in images]
    return draw_chart(
        [
            Panel("Whole JPEGs", "megapixels", "images/s, log", images, (True, True)),
            Panel("The same in pixels", "megapixels", "megapixels/s, log", pixels, (True, True)),
        ]
    )


def _sweep(device: Device) -> str:
    """Decoding and our loader over what can be set."""
    panels = []
    loads: dict[str, list[tuple[float, Measured]]] = defaultdict(list)
    for row in _good(device, "decode-dali"):
        match = _DALI.fullmatch(row.name)
        if match and match[3] != "None":
            loads[f"decoding {match[1]}, batch {match[2]}"].append((float(match[3]), row))
    if loads:
        panels.append(Panel("JPEG engine's share, decoding", "hw_decoder_load", "images/s, log", _lines(loads), (False, True)))  # fmt: skip
    rows = _good(device, "sweep")
    usual = next((row for row in rows if row.name == "default"), None)
    for factor, across in _FACTORS.items():
        points = [
            (value, row)
            for row in rows
            if row.name.startswith(factor) and (value := row.fact(factor)) is not None
        ]
        if usual is not None and (value := usual.fact(factor)) is not None:
            points.append((value, usual))
        if points:
            is_power = factor == "batch_size"
            panels.append(Panel(f"Our loader: {across}", factor, "images/s", _lines({"loader": points}), (is_power, False)))  # fmt: skip
    return draw_chart(panels) if panels else ""


_FACTORS = {
    "hw_decoder_load": "JPEG engine's share",
    "batch_size": "batch size",
    "prefetch": "batches ahead",
}


def _kernel(device: Device) -> str:
    found = {
        name: float(row["share_of_copy"])
        for name, row in device.result("kernel").items()
        if isinstance(row, Mapping) and is_number(row.get("share_of_copy"))
    }
    if not found:
        return ""
    bars = [
        Bar(name.replace("torch.", "").replace("_format", ""), share)
        for name, share in found.items()
    ]
    across = "share of a copy's bandwidth on the device (line: the aim)"
    return draw_bars([Bars("Fused kernels", across, bars, mark=_AIM)])


def _tiles(device: Device) -> str:
    """Time of an image over the window, for each size; beside it that of the whole file as it was."""
    found: dict[str, dict[str, list[tuple[float, Measured]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    whole: dict[str, float] = {}
    for row in _good(device, "tiles"):
        if match := _CUT.fullmatch(row.name):
            size, share, decoder = match.groups()
            found[size][decoder].append((float(share), row))
        elif " plain, " in row.name:
            size = row.name.split()[0]
            whole[size] = max(_speed(row), whole.get(size, 0.0))
    panels = []
    for size, decoders in found.items():
        series = _lines(decoders, lambda speed: 1000 / speed)
        if size in whole:
            ends = [(0.0, 1000 / whole[size]), (1.0, 1000 / whole[size])]
            series.append(Series("whole, as it was, by the fastest decoder", ends, dashed=True))
        panels.append(Panel(f"Cut out of {size}", "share of each side", "ms per image", series))
    return draw_chart(panels) if panels else ""


def _memory(device: Device) -> str:
    panels = []
    for name, row in device.result("memory").items():
        looks = row.get("MiB, ten looks") if isinstance(row, Mapping) else None
        if not looks or not any(any(look.values()) for look in looks):
            continue
        every = float(row.get("batches") or len(looks)) / len(looks)
        series = [
            Series(part, [(every * (place + 1), look[part]) for place, look in enumerate(looks)])
            for part in looks[0]
            if any(look[part] for look in looks)
        ]
        up = f"MiB of the {series[0].name}" if len(series) == 1 else "MiB"
        panels.append(Panel(f"Memory, decoder {name}", "batches", up, series))
    return draw_chart(panels) if panels else ""


def _loaders(device: Device) -> str:
    """Who is how fast, with the range of the runs; ours dark."""
    charts = []
    for step, title in (("compare", "Loaders, files to batches"), ("training", "Behind or without a loader: a ResNet-50 step")):  # fmt: skip
        rows = sorted(_good(device, step), key=_speed, reverse=True)
        bars = [Bar(row.name, _speed(row), row.runs, "gpu-aug" in row.name) for row in rows]
        if bars:
            charts.append(Bars(title, "images/s, median and range of the runs (dark: ours)", bars))
    return draw_bars(charts) if charts else ""


_PLOTS: Mapping[str, tuple[str, Callable[[Device], str]]] = {
    "loaders": ("Loaders ranked, with the range of their runs", _loaders),
    "decode": ("Decoding whole JPEGs: every decoder's fastest setting by size", _decode),
    "sweep": (
        "Images per second over the JPEG engine's share, batch size and batches ahead",
        _sweep,
    ),
    "kernel": ("Fused kernels: share of a copy's bandwidth by recipe, type and layout", _kernel),
    "tiles": ("Time of an image over the window cut out of its file, by decoder", _tiles),
    "memory": ("Memory over batches", _memory),
}
