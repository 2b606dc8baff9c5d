"""A list of files with labels, read back by hand: it has no library."""

from pathlib import Path

from tests.support.writers import Expected, Written

FORMAT = "list"
CHECKED_AGAINST = "-"


def write(folder: Path, samples: list[Written]) -> Path:
    lines = []
    for sample in samples:
        (folder / f"{sample.name}.jpg").write_bytes(sample.image)
        lines.append(f"{sample.name}.jpg {sample.label}\n")
    (folder / "files.txt").write_text("".join(lines))
    return folder / "files.txt"


def expected(source: Path) -> list[Expected]:
    pairs = [line.split() for line in source.read_text().splitlines()]
    return [
        Expected(name, (source.parent / name).read_bytes(), int(label)) for name, label in pairs
    ]


def damage(source: Path) -> Path:
    sorted(source.parent.glob("*.jpg"))[7].unlink()
    return source
