"""Folders of frames in class folders, listed by hand: they have no library."""

import json
from dataclasses import replace
from pathlib import Path

from tests.support.writers import Expected, Written, write_images

FORMAT = "frame-folder"
CHECKED_AGAINST = "-"
DECODED = True
HOLDS_VIDEOS = True


def write(folder: Path, samples: list[Written]) -> Path:
    root = folder / "classes"
    for sample in samples:
        frames = [replace(sample, name=f"img_{number:05d}") for number in (1, 2)]
        write_images(root / f"class-{sample.label}" / sample.name, frames)
    return root


def expected(source: Path) -> list[Expected]:
    found = []
    for label, name in enumerate(sorted(path.name for path in source.iterdir())):
        for video in sorted((source / name).iterdir()):
            frames = sorted(path.name for path in video.iterdir())
            found.append(Expected(f"{name}/{video.name}", json.dumps(frames).encode(), label))
    return found


def damage(source: Path) -> Path:
    for frame in source.glob("*/photo-007/*"):
        frame.unlink()
    return source
