"""A list of videos with labels, read back by hand: it has no library."""

from pathlib import Path

from tests.support.writers import Written
from tests.support.writers.list import expected as expected
from tests.support.writers.video_folder import write_frame

FORMAT = "clip-list"
CHECKED_AGAINST = "-"
DECODED = True
HOLDS_VIDEOS = True


def write(folder: Path, samples: list[Written]) -> Path:
    lines = []
    for sample in samples:
        write_frame(folder / f"{sample.name}.avi", sample.image)
        lines.append(f"{sample.name}.avi {sample.label}\n")
    (folder / "videos.txt").write_text("".join(lines))
    return folder / "videos.txt"


def damage(source: Path) -> Path:
    sorted(source.parent.glob("*.avi"))[7].unlink()
    return source
