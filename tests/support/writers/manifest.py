"""JSON lines that name image files."""

import json
from pathlib import Path

from tests.support.writers import Expected, Written, write_images

FORMAT = "manifest"
CHECKED_AGAINST = "-"


def write(folder: Path, samples: list[Written]) -> Path:
    names = write_images(folder / "photos", samples)
    lines = [
        json.dumps({"image": f"photos/{name}", "label": sample.label, "id": sample.name})
        for name, sample in zip(names, samples, strict=True)
    ]
    (folder / "train.jsonl").write_text("\n".join(lines) + "\n")
    return folder / "train.jsonl"


def expected(source: Path) -> list[Expected]:
    lines = [json.loads(line) for line in source.read_text().splitlines()]
    return [
        Expected(
            f"train.jsonl/{line['id']}", (source.parent / line["image"]).read_bytes(), line["label"]
        )
        for line in lines
    ]


def damage(source: Path) -> Path:
    lines = source.read_text().splitlines()
    lines[11] = lines[11][:-5]
    source.write_text("\n".join(lines))
    return source
