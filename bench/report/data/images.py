"""Sizes and formats of images."""

from collections import Counter

from bench.report.charts.bars import bar
from bench.report.charts.density import density_chart
from bench.report.elements import data, note, section, table
from bench.report.markup import Markup
from bench.report.numbers import count, share
from readers.plural import counted
from readers.prepare import Inspection
from readers.prepare.percentiles import Spread

_MOST_SHAPES = 8


def images(found: Inspection) -> Markup:
    """Heights and widths, common shapes, formats."""
    if not found.formats:
        return Markup()
    total = found.formats.total()
    return section(
        "images",
        "Images",
        table(
            ["format", "", "images", "share"],
            _formats(found, total),
            caption="Formats; of JPEGs also the process they were encoded by",
        ),
        _baseline(found),
        note(f"{counted(found.num_imageless, 'sample')} without an image.")
        if found.num_imageless
        else "",
        density_chart("Heights and widths", found.shapes, "image") if len(found.shapes) > 1 else "",
        _left_out(found, total),
        table(
            ["", "smallest", "5 %", "median", "95 %", "largest"],
            [_spread("height", found.heights), _spread("width", found.widths)],
            caption="In pixels, after EXIF orientation",
        ),
        _shapes(found.shapes, total),
    )


def _formats(found: Inspection, total: int) -> list[list[object]]:
    rows: list[list[object]] = []
    for name, many in found.formats.most_common():
        rows.append([name, bar(many / total), data(many, count(many)), share(many, total)])
        if name == "jpeg":
            rows += [
                [f"jpeg: {process}", bar(some / total), data(some, count(some)), share(some, total)]
                for process, some in found.processes.most_common()
            ]
    return rows


def _baseline(found: Inspection) -> Markup:
    others = found.processes.total() - found.processes["baseline"]
    if not others:
        return Markup()
    return note(
        f"{share(others, found.processes.total())} of the JPEGs are not baseline: on a CPU they are decoded whole, "
        "where of a baseline file only the crop is."
    )


def _left_out(found: Inspection, total: int) -> Markup:
    counted_in = found.shapes.total()
    if counted_in == total:
        return Markup()
    return note(
        f"{share(counted_in, total)} of the images are drawn: of more shapes no count is kept."
    )


def _spread(name: str, spread: Spread) -> list[object]:
    percentiles = [f"{spread.about}{count(spread.percentile(one))}" for one in (5, 50, 95)]
    return [name, count(spread.lowest), *percentiles, count(spread.highest)]


def _shapes(shapes: Counter[tuple[int, int]], total: int) -> Markup:
    rows = [
        [f"{height}x{width}", bar(many / total), data(many, count(many)), share(many, total)]
        for (height, width), many in shapes.most_common(_MOST_SHAPES)
    ]
    caption = f"The most common of {counted(len(shapes), 'shape')} (height x width)"
    return table(["shape", "", "images", "share"], rows, caption=caption)
