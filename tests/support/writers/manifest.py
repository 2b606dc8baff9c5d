"""JSON lines that name image files."""

import json
from pathlib import Path

from tests.support.writers import Expected, Written

FORMAT = "manifest"
CHECKED_AGAINST = "-"


def write(folder: Path, samples: list[Written]) -> Path:
    (folder / "photos").mkdir()
    lines = []
    for sample in samples:
        name = f"photos/{sample.name}.jpg"
        (folder / name).write_bytes(sample.image)
        lines.append(json.dumps({"image": name, "label": sample.label, "id": sample.name}))
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
