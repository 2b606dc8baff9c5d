"""Images in one folder and their masks, as PNGs of one grey channel, in another."""

import io
from pathlib import Path

import numpy as np
from PIL import Image

from tests.support.writers import Expected, Written

FORMAT = "mask-folder"
CHECKED_AGAINST = "torchvision"


def write(folder: Path, samples: list[Written]) -> Path:
    for name in ("images", "masks"):
        (folder / name).mkdir()
    for sample in samples:
        (folder / "images" / f"{sample.name}.jpg").write_bytes(sample.image)
        with Image.open(io.BytesIO(sample.image)) as image:
            mask = np.full((image.height, image.width), 3 + sample.label, np.uint8)
        Image.fromarray(mask).save(folder / "masks" / f"{sample.name}.png")
    return folder


def expected(source: Path) -> list[Expected]:
    return [
        Expected(f"images/{path.name}", path.read_bytes(), -1)
        for path in sorted((source / "images").iterdir())
    ]


def damage(source: Path) -> Path:
    """Let a mask be a link to nothing."""
    mask = sorted((source / "masks").iterdir())[11]
    mask.unlink()
    mask.symlink_to("nothing.png")
    return source
