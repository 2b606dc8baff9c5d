"""COCO's instances, with the images in a folder beside."""

import json
from pathlib import Path

from tests.support.writers import Expected, Written, size_of, write_images

FORMAT = "coco"
CHECKED_AGAINST = "pycocotools"


def write(folder: Path, samples: list[Written]) -> Path:
    (folder / "annotations").mkdir()
    images, annotations = [], []
    for number, name in enumerate(write_images(folder / "train", samples)):
        width, height = size_of(samples[number])
        images.append({"id": 100 + number, "file_name": name, "height": height, "width": width})
        box = {"bbox": [1, 2, 10, 12], "category_id": 5 + samples[number].label, "iscrowd": 0}
        annotations.append({"id": number, "image_id": 100 + number, **box})
    categories = [{"id": 5 + number, "name": f"class-{number}"} for number in range(3)]
    stored = {"images": images, "annotations": annotations, "categories": categories}
    source = folder / "annotations" / "instances_train.json"
    source.write_text(json.dumps(stored))
    return source


def expected(source: Path) -> list[Expected]:
    photos = source.parent.parent / "train"
    return [
        Expected(
            f"{source.name}/{image['file_name']}", (photos / image["file_name"]).read_bytes(), -1
        )
        for image in json.loads(source.read_text())["images"]
    ]


def damage(source: Path) -> Path:
    name = json.loads(source.read_text())["images"][11]["file_name"]
    (source.parent.parent / "train" / name).unlink()
    return source
