"""LabelMe's JSON beside pictures."""

import json
from pathlib import Path

from tests.support.writers import Expected, Written, size_of, write_images

FORMAT = "labelme"
CHECKED_AGAINST = "-"
OPTIONS = {"classes": ["class-0", "class-1", "class-2"]}


def write(folder: Path, samples: list[Written]) -> Path:
    root = folder / "pictures"
    for sample, name in zip(samples, write_images(root, samples), strict=True):
        width, height = size_of(sample)
        shape = {"label": f"class-{sample.label}", "points": [[1, 2], [6, 7.5]], "group_id": None}
        stored = {"version": "5.5.0", "flags": {}, "shapes": [shape | {"shape_type": "rectangle"}]}
        stored |= {"imagePath": name, "imageData": None}
        stored |= {"imageHeight": height, "imageWidth": width}
        (root / f"{sample.name}.json").write_text(json.dumps(stored))
    return root


def expected(source: Path) -> list[Expected]:
    files = sorted(source.glob("*.json"))
    stored = [json.loads(path.read_text()) for path in files]
    return [
        Expected(path.stem, (source / one["imagePath"]).read_bytes(), -1)
        for path, one in zip(files, stored, strict=True)
    ]


def damage(source: Path) -> Path:
    path = sorted(source.glob("*.json"))[11]
    path.write_text(path.read_text().replace("rectangle", "rect"))
    return source
