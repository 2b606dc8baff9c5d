"""The gallery: every operation with its pictures, arguments, engines and how far these differ; every preset."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from gallery_families import FAMILIES, operations
from gallery_settings import HEIGHT, WIDTH
from reference_pages import heading

import gpu_aug
from gpu_aug.presets import PRESETS

DOCS = Path(__file__).resolve().parents[1]
Row = list[str]

_HOW = (
    f"Each row begins with the original of {WIDTH} x {HEIGHT} pixels and shows what several epochs see of it (one, if nothing is random), with the "
    "drawn parameters below. Lengths in pixels look larger than on the pictures of a training. A gray border marks another size. "
    "``gpu-aug preview`` draws such pictures of your own data: :doc:`/recipes`.\n\n"
)


def pages() -> Iterator[tuple[str, str]]:
    """Give the index, a page for each family, and one for the presets."""
    yield "gallery/index.rst", _index()
    for name, family in FAMILIES.items():
        names = operations(family)
        text = heading(family.title, "=") + _listed(names) + _HOW
        text += "".join(map(_operation, names))
        yield f"gallery/{name}.rst", text
    text = heading("Presets", "=") + _listed(PRESETS) + _HOW
    yield "gallery/presets.rst", text + "".join(map(_preset, PRESETS))


def _listed(names: Iterable[str]) -> str:
    """Return the names as the first paragraph of a page, which llms.txt shows."""
    return ", ".join(f"``{name}``" for name in names) + ".\n\n"


def _index() -> str:
    text = heading("Gallery of operations", "=")
    text += "Every operation with pictures, its arguments, the engines that carry it out and how far they differ.\n\n"
    for name, family in FAMILIES.items():
        links = ", ".join(f":py:class:`~gpu_aug.{one}`" for one in operations(family))
        text += f"- :doc:`{family.title} <{name}>`: {links}\n"
    text += "- :doc:`Presets <presets>`: " + ", ".join(f"``{name}``" for name in PRESETS) + "\n\n"
    entries = "".join(f"   {name}\n" for name in (*FAMILIES, "presets"))
    return text + f".. toctree::\n   :hidden:\n\n{entries}"


def _operation(name: str) -> str:
    text = heading(name, "-") + _rows_of_pictures(name)
    text += f".. autoclass:: gpu_aug.{name}\n\n"
    return text + "".join(f"- {line}\n" for line in _facts(name)) + "\n"


def _preset(name: str) -> str:
    recipe = gpu_aug.Recipe.preset(name)
    parts = recipe.recipes if isinstance(recipe, gpu_aug.Views) else [recipe]
    text = heading(name, "-") + _rows_of_pictures(name)
    text += f".. autofunction:: gpu_aug.presets.{name}\n   :no-index:\n\n"
    shown = [", ".join(map(repr, part.operations)) for part in parts]
    for number, operations_of_it in enumerate(dict.fromkeys(shown)):
        count = shown.count(operations_of_it)
        which = (
            f"{count} views: " if count > 1 else f"view {number + 1}: " if len(shown) > 1 else ""
        )
        text += f"- {which}``{operations_of_it}``\n"
    return text + "\n"


def _rows_of_pictures(name: str) -> str:
    text = ""
    for one in _pictures().get(name, []):
        draws = "; ".join(
            f"{number}: {words}" for number, words in enumerate(one["draws"], 1) if words
        )
        number = len(one["draws"])
        alt = f"A photograph, and what {name} makes of it in {number} draw{'s'[: number != 1]}"
        text += f"``{one['call']}``\n\n.. image:: /gallery/{one['file']}\n   :alt: {alt}\n\n"
        text += f"*{_plain(draws)}*\n\n" if draws else ""
    return text


def _facts(name: str) -> Iterator[str]:
    differences = [row for row in _table("agreement.md", "row") if row[1] == name]
    if differences:
        yield "Engines: ``fused``, ``kornia``, ``albumentations``. " + _differences(differences)
    for channels, depths, names in _table("images.md", "channels"):
        if name in names.split(", "):
            yield f"Images: channels {channels}; depth {depths}."
    sources = _imports().get(name)
    if sources:
        shown = ", ".join(f"``{one}``" for one in sources)
        yield f"A pipeline that is :doc:`imported </imports>` gets it for {shown}."


def _differences(rows: list[Row]) -> str:
    def largest(*columns: int) -> float:
        found = [re.match(r"[\d.e+-]+", row[column]) for row in rows for column in columns]
        return max((float(one[0]) for one in found if one and one[0] != "-"), default=0.0)

    return (
        f"On the same draws they differ by at most {largest(2, 4, 6):.2g}/255 in float32 on pictures of 61 x 84 pixels "
        f"(allowed: {largest(9):.2g}/255); from libraries outside by {largest(11):.2g}/255. :doc:`All rows </agreement>`."
    )


@cache
def _pictures() -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = json.loads(
        (DOCS / "gallery/pictures.json").read_text()
    )
    return found


@cache
def _table(page: str, first: str) -> list[Row]:
    """Return the rows of the table of a page whose first column is called so."""
    rows, is_in = [], False
    for line in (DOCS / page).read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        is_in = line.startswith("|") and (is_in or cells[0] == first)
        if is_in:
            rows.append(cells)
    return rows[2:]


@cache
def _imports() -> dict[str, list[str]]:
    """Return the transforms of other libraries that become an operation, by its name."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    library = ""
    for line in (DOCS / "imports.md").read_text().splitlines():
        if line.startswith("## "):
            library = line[3:].partition(":")[0]
        cells = [cell.strip(" `") for cell in line.strip("|").split("|")]
        if len(cells) == 3 and cells[1] in ("kept", "changed"):
            name = cells[2].partition("(")[0]
            source = f"{library} {cells[0].partition('(')[0]}"
            if source not in found[name]:
                found[name].append(source)
    return dict(found)


def _plain(text: str) -> str:
    return re.sub(r"([\\*_|`])", r"\\\1", text)
