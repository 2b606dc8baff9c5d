"""Class folders, read back by torchvision's ImageFolder."""

from pathlib import Path

from torchvision.datasets import ImageFolder

from tests.support.writers import Expected, Written, break_link, write_images

FORMAT = "folder"
CHECKED_AGAINST = "torchvision"


def write(folder: Path, samples: list[Written]) -> Path:
    root = folder / "classes"
    for sample in samples:
        write_images(root / f"class-{sample.label}", [sample])
    return root


def expected(source: Path) -> list[Expected]:
    return [
        Expected(str(Path(path).relative_to(source)), Path(path).read_bytes(), label)
        for path, label in ImageFolder(source).samples
    ]


def damage(source: Path) -> Path:
    break_link(sorted(source.rglob("*.*"))[7])
    return source
