"""YOLO's text files, with the pictures in a folder beside."""

from pathlib import Path

from tests.support.writers import Expected, Written, write_images

FORMAT = "yolo"
CHECKED_AGAINST = "pycocotools"


def write(folder: Path, samples: list[Written]) -> Path:
    write_images(folder / "images" / "train", samples)
    (folder / "labels" / "train").mkdir(parents=True)
    for sample in samples:
        text = f"{sample.label} 0.5 0.5 0.25 0.5\n"
        (folder / "labels" / "train" / f"{sample.name}.txt").write_text(text)
    (folder / "data.yaml").write_text("train: images/train\nnames: [bird, cat, dog]\n")
    return folder / "data.yaml"


def expected(source: Path) -> list[Expected]:
    images = sorted((source.parent / "images" / "train").iterdir())
    return [Expected(f"images/train/{path.stem}", path.read_bytes(), -1) for path in images]


def damage(source: Path) -> Path:
    path = sorted((source.parent / "labels" / "train").iterdir())[11]
    path.write_text("3 0.5 0.5 0.25 0.5\n")
    return source
