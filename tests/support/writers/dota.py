"""DOTA's text files, with the pictures in a folder beside."""

from pathlib import Path

from readers.formats.dota.labels import CLASSES
from tests.support.writers import Expected, Written, write_images

FORMAT = "dota"
CHECKED_AGAINST = "-"
OPTIONS = {"classes": CLASSES}  # without them a damaged file of labels is refused


def write(folder: Path, samples: list[Written]) -> Path:
    root = folder / "dota"
    write_images(root / "images", samples)
    (root / "labelTxt").mkdir()
    for sample in samples:
        row = f"1 2 6 2 6 5 1 5 {CLASSES[sample.label % 15]} 0"
        text = f"imagesource:GoogleEarth\ngsd:0.146\n{row}\n"
        (root / "labelTxt" / f"{sample.name}.txt").write_text(text)
    return root


def expected(source: Path) -> list[Expected]:
    images = sorted((source / "images").iterdir())
    return [Expected(f"images/{path.stem}", path.read_bytes(), -1) for path in images]


def damage(source: Path) -> Path:
    path = sorted((source / "labelTxt").iterdir())[11]
    path.write_text(path.read_text().replace("6 5", "6 five"))
    return source
