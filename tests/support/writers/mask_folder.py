"""Images in one folder and their masks, as PNGs of one grey channel, in another."""

from pathlib import Path

import numpy as np
from PIL import Image

from tests.support.writers import Expected, Written, break_link, size_of, write_images

FORMAT = "mask-folder"
CHECKED_AGAINST = "torchvision"


def write(folder: Path, samples: list[Written]) -> Path:
    write_images(folder / "images", samples)
    (folder / "masks").mkdir()
    for sample in samples:
        mask = np.full(size_of(sample)[::-1], 3 + sample.label, np.uint8)
        Image.fromarray(mask).save(folder / "masks" / f"{sample.name}.png")
    return folder


def expected(source: Path) -> list[Expected]:
    return [
        Expected(f"images/{path.name}", path.read_bytes(), -1)
        for path in sorted((source / "images").iterdir())
    ]


def damage(source: Path) -> Path:
    """Let a mask be a link to nothing."""
    break_link(sorted((source / "masks").iterdir())[11])
    return source
