"""Durations, rates and codecs of videos."""

from collections.abc import Mapping

from bench.report.charts.bars import bar
from bench.report.charts.density import density_chart
from bench.report.charts.histogram import NUM_BINS, histogram
from bench.report.charts.scale import Scale
from bench.report.elements import data, facts, section, table
from bench.report.markup import Markup
from bench.report.numbers import count, seconds, share
from readers.prepare import Inspection
from readers.prepare.percentiles import Spread
from readers.video.info import peculiarity_lines

_MOST_KINDS = 12


def videos(found: Inspection) -> Markup:
    """What `gpu-aug inspect` tells of videos."""
    looked = found.videos
    if not looked.codecs:
        return Markup()
    total = looked.codecs.total()
    rates = {f"{rate:g}": many for rate, many in looked.rates.most_common()}
    return section(
        "videos",
        "Videos",
        _kinds("codec", looked.codecs, total),
        _kinds("frames per second", rates, total),
        facts(
            [
                (
                    "in all",
                    f"{seconds(looked.milliseconds.total / 1000)}, {count(looked.frames.total)} frames",
                ),
                ("with sound", f"{count(looked.num_with_audio)} of {count(total)}"),
                *peculiarity_lines(looked.peculiar),
            ]
        ),
        _histogram("Durations", looked.milliseconds, 1000),
        _histogram("Frames", looked.frames, 1),
        _shapes(looked.shapes),
    )


def _shapes(shapes: Mapping[tuple[int, int], int]) -> Markup:
    if len(shapes) > 1:
        return density_chart("Heights and widths", shapes, "video")
    [(height, width)] = shapes
    return facts([("frames", f"all {height}x{width} (height x width)")])


def _kinds(heading: str, counts: Mapping[str, int], total: int) -> Markup:
    ranked = sorted(counts.items(), key=lambda item: -item[1])
    rows: list[list[object]] = [
        [name, bar(many / total), data(many, count(many)), share(many, total)]
        for name, many in ranked[:_MOST_KINDS]
    ]
    others = sum(many for _, many in ranked[_MOST_KINDS:])
    if others:
        rows.append(
            ["others", bar(others / total), data(others, count(others)), share(others, total)]
        )
    return table([heading, "", "videos", "share"], rows, caption=f"Videos by {heading}")


def _histogram(title: str, spread: Spread, unit: int) -> Markup:
    if spread.lowest == spread.highest:
        number = spread.lowest / unit
        return facts([(title.lower(), f"all {seconds(number) if unit > 1 else count(number)}")])
    scale = Scale.around(spread.lowest / unit, spread.highest / unit)
    edges = scale.edges(NUM_BINS)
    return histogram(
        title,
        scale,
        edges,
        spread.histogram([unit * edge for edge in edges]),
        words=seconds if unit > 1 else count,
        thing="video",
        caption="" if spread.is_exact else "Numbers are rounded to 1 %.",
    )
