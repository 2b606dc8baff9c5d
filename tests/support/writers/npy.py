"""An array of pixels, which has no JPEGs: the images are decoded, and of one size."""

import io
from pathlib import Path

import numpy as np
from PIL import Image

from tests.support.writers import Expected, Written

FORMAT = "npy"
CHECKED_AGAINST = "numpy"
DECODED = True  # a sample holds the pixels


def write(folder: Path, samples: list[Written]) -> Path:
    images = [
        np.asarray(Image.open(io.BytesIO(sample.image)).resize((31, 20))) for sample in samples
    ]
    np.save(folder / "photos.npy", np.stack(images))
    np.save(folder / "photos_labels.npy", [sample.label for sample in samples])
    return folder / "photos.npy"


def expected(source: Path) -> list[Expected]:
    labels = np.load(source.with_name("photos_labels.npy"))
    return [
        Expected(f"photos.npy/{row}", b"P6\n31 20\n255\n" + image.tobytes(), int(label))
        for row, (image, label) in enumerate(zip(np.load(source), labels, strict=True))
    ]
