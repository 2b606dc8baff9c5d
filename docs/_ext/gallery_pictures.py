"""Draws the pictures of the gallery: `python docs/_ext/gallery_pictures.py [NAME ...]`.

They are kept in docs/gallery/, small, so that building the site needs no engine, and `pictures.json` beside
them says what was drawn in each and of which recipe. A test compares these with the code.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from gallery_settings import HEIGHT, PRESETS_SHOWN, SHOWN, WIDTH, make
from numpy.typing import NDArray
from PIL import Image

import gpu_aug
from bench.compare.photographs import shipped_photographs
from dali_pipes.preview import preview_images
from gpu_aug import CenterCrop, Operation, Recipe, Resize, Views
from readers import Sample, from_arrays
from readers.datasets.arrays import ArrayDataset
from readers.datasets.dataset import IndexedDataset

FOLDER = Path(__file__).resolve().parents[1] / "gallery"
LIST = FOLDER / "pictures.json"
NUM_DRAWS = 3
_GAP = 4
_LARGEST = (128, 176)  # of what an operation that changes sizes gives
_PHOTOGRAPHS = ("cat", "coffee", "rocket", "motorcycle")
_OTHER_PHOTOGRAPHS = {"HEStain": ("tissue",)}
_QUALITY = 55
# Of the eyes of the cat, for crops that look at boxes: (left, top, right, bottom).
_EYES = [[35, 26, 61, 48], [84, 33, 104, 54]]


def main(names: list[str]) -> None:
    """Draw the named operations and presets, or all, and write down what was drawn."""
    FOLDER.mkdir(exist_ok=True)
    shown = shown_recipes()
    told = json.loads(LIST.read_text()) if LIST.exists() else {}
    for name in names or shown:
        told[name] = [
            {"file": f"{name}-{number}.webp", **draw(call, recipe, f"{name}-{number}.webp")}
            for number, (call, recipe) in enumerate(shown[name])
        ]
        print(name, len(told[name]), flush=True)  # noqa: T201 - a command
    told = {name: told[name] for name in sorted(shown) if name in told}
    kept = {one["file"] for pictures in told.values() for one in pictures}
    for path in FOLDER.glob("*.webp"):
        if path.name not in kept:
            path.unlink()
    LIST.write_text(json.dumps(told, indent=1) + "\n")


def shown_recipes() -> dict[str, list[tuple[str, Recipe | Views]]]:
    """Return what is drawn: for each operation and preset calls, and the recipes that show them."""
    shown: dict[str, list[tuple[str, Recipe | Views]]] = {}
    for name, settings in SHOWN.items():
        made = [make(name, arguments) for arguments in settings]
        shown[name] = [(repr(one), _around(one)) for one in made]
    for name, options in PRESETS_SHOWN.items():
        words = ", ".join(f"{word}={value!r}" for word, value in options.items())
        call = f'Recipe.preset("{name}", {words})'
        shown[name] = [(call, Recipe.preset(name, **options))]
    return shown


def draw(call: str, recipe: Recipe | Views, file: str) -> dict[str, Any]:
    """Draw the original and what epochs see of it, side by side in a file.

    Returns:
        The call, the fingerprint of the recipe, and the words of each draw.
    """
    name = call.partition("(")[0]
    num_views = len(recipe.recipes) if isinstance(recipe, Views) else 1
    epochs = range(max(1, NUM_DRAWS // num_views))
    preview = preview_images(_originals(name), recipe, [0], epochs=epochs)
    cells = [cell for row in preview.rows for cell in row.cells if cell]
    pictures = [cell.picture for cell in cells]
    words = [[line.text for line in cell.caption] for cell in cells]
    if len({one.tobytes() for one in pictures[1:]}) == 1:  # nothing is random in it
        pictures, words = pictures[:2], words[:2]
    _side_by_side(pictures).save(FOLDER / file, quality=_QUALITY, method=6)
    drawn = [_words(lines, name) for lines in words[1:]]
    return {"call": call, "recipe": recipe.fingerprint, "draws": drawn}


def _around(operation: Operation) -> Recipe:
    """Return the recipe that shows an operation: with a gray border where sizes differ from draw to draw."""
    first = Resize((HEIGHT, WIDTH))
    recipe = Recipe([first, operation])
    return recipe if recipe.size else Recipe([first, operation, CenterCrop(_LARGEST, fill=0.5)])


def _originals(name: str) -> IndexedDataset:
    """Return what is shown: one photograph, and others that it is mixed with."""
    found = shipped_photographs()
    wanted = _OTHER_PHOTOGRAPHS.get(name, _PHOTOGRAPHS)
    images = [_cut(Image.open(found[one][0]).convert("RGB")) for one in wanted]
    dataset = from_arrays(np.stack(images), np.arange(len(wanted)), class_names=wanted)
    kind = getattr(gpu_aug, name, None)
    return _WithBoxes(dataset) if getattr(kind, "needs_boxes", False) else dataset


class _WithBoxes(ArrayDataset):
    """Photographs, of which the first has boxes."""

    def __init__(self, dataset: ArrayDataset) -> None:
        self.__dict__ |= vars(dataset)

    def _sample(self, index: int) -> Sample:
        sample = super()._sample(index)
        boxes = json.dumps({"boxes": [] if index else _EYES}).encode()
        return replace(sample, fields={**sample.fields, "json": boxes})


def _cut(image: Image.Image) -> NDArray[np.uint8]:
    """Return the middle of a photograph, of the gallery's shape and size."""
    height = min(image.height, image.width * HEIGHT // WIDTH)
    width = height * WIDTH // HEIGHT
    left, top = (image.width - width) // 2, (image.height - height) // 2
    cut = image.crop((left, top, left + width, top + height))
    return np.asarray(cut.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS))


def _side_by_side(pictures: list[Image.Image]) -> Image.Image:
    """Return pictures in a row, their middles at one height."""
    width = sum(one.width for one in pictures) + _GAP * (len(pictures) - 1)
    row = Image.new("RGBA", (width, max(one.height for one in pictures)))
    left = 0
    for one in pictures:
        row.paste(one, (left, (row.height - one.height) // 2))
        left += one.width + _GAP
    return row


def _words(lines: list[str], name: str) -> str:
    """Return what was drawn for the operation, out of the lines below its picture."""
    if name.startswith("Recipe"):
        return ""
    if "nothing is changed at random" in lines:
        return "it has changed nothing"
    return next((line.partition(": ")[2] for line in lines if line.startswith(f"{name}: ")), "")


if __name__ == "__main__":
    main(sys.argv[1:])
