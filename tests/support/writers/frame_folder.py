"""Folders of frames in class folders, listed by hand: they have no library."""

import json
from pathlib import Path

from tests.support.writers import Expected, Written

FORMAT = "frame-folder"
CHECKED_AGAINST = "-"
DECODED = True
HOLDS_VIDEOS = True


def write(folder: Path, samples: list[Written]) -> Path:
    root = folder / "classes"
    for sample in samples:
        video = root / f"class-{sample.label}" / sample.name
        video.mkdir(parents=True)
        for number in (1, 2):
            (video / f"img_{number:05d}.jpg").write_bytes(sample.image)
    return root


def expected(source: Path) -> list[Expected]:
    found = []
    for label, name in enumerate(sorted(path.name for path in source.iterdir())):
        for video in sorted((source / name).iterdir()):
            frames = sorted(path.name for path in video.iterdir())
            found.append(Expected(f"{name}/{video.name}", json.dumps(frames).encode(), label))
    return found


def damage(source: Path) -> Path:
    for frame in sorted(path for path in source.rglob("*") if path.name == "photo-007")[
        0
    ].iterdir():
        frame.unlink()
    return source
