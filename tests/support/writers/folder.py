"""Class folders, read back by torchvision's ImageFolder."""

from pathlib import Path

from torchvision.datasets import ImageFolder

from tests.support.writers import Expected, Written

FORMAT = "folder"
CHECKED_AGAINST = "torchvision"


def write(folder: Path, samples: list[Written]) -> Path:
    root = folder / "classes"
    for sample in samples:
        path = root / f"class-{sample.label}" / f"{sample.name}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(sample.image)
    return root


def expected(source: Path) -> list[Expected]:
    return [
        Expected(str(Path(path).relative_to(source)), Path(path).read_bytes(), label)
        for path, label in ImageFolder(source).samples
    ]


def damage(source: Path) -> Path:
    victim = sorted(source.rglob("*.jpg"))[7]
    victim.unlink()
    victim.symlink_to("nowhere")
    return source
