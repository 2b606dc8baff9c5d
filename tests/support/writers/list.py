"""A list of files with labels, read back by hand: it has no library."""

from pathlib import Path

from tests.support.writers import Expected, Written, write_images

FORMAT = "list"
CHECKED_AGAINST = "-"


def write(folder: Path, samples: list[Written]) -> Path:
    names = write_images(folder, samples)
    rows = [f"{name} {one.label}\n" for name, one in zip(names, samples, strict=True)]
    (folder / "files.txt").write_text("".join(rows))
    return folder / "files.txt"


def expected(source: Path) -> list[Expected]:
    pairs = [line.split() for line in source.read_text().splitlines()]
    return [
        Expected(name, (source.parent / name).read_bytes(), int(label)) for name, label in pairs
    ]


def damage(source: Path) -> Path:
    sorted(source.parent.glob("*.jpg"))[7].unlink()
    return source
