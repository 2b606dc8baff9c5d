"""OpenImages' table of boxes, with descriptions of classes and a folder of images beside it."""

import csv
from pathlib import Path

from tests.support.writers import Expected, Written, write_images

FORMAT = "openimages"
CHECKED_AGAINST = "pandas"
COLUMNS = (
    *("ImageID", "Source", "LabelName", "Confidence", "XMin", "XMax", "YMin", "YMax"),
    *("IsOccluded", "IsTruncated", "IsGroupOf", "IsDepiction", "IsInside"),
)


def write(folder: Path, samples: list[Written]) -> Path:
    write_images(folder / "train", samples)
    box = (0.1, 0.5, 0.2, 0.75, 0, 0, 0, 0, -1)
    rows = [(sample.name, "xclick", f"/m/0{sample.label}", 1, *box) for sample in samples]
    source = folder / "oidv6-train-annotations-bbox.csv"
    with source.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows])
    descriptions = "".join(f"/m/0{number},class {number}\n" for number in range(3))
    (folder / "class-descriptions-boxable.csv").write_text(descriptions)
    return source


def expected(source: Path) -> list[Expected]:
    with source.open(newline="") as file:
        ids = [row["ImageID"] for row in csv.DictReader(file)]
    return [
        Expected(f"{source.name}/{one}", (source.parent / "train" / f"{one}.jpg").read_bytes(), -1)
        for one in ids
    ]


def damage(source: Path) -> Path:
    lines = source.read_text().splitlines()
    lines[12] = lines[12].replace("0.5", "0.05")
    source.write_text("\n".join(lines))
    return source
