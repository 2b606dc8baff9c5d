"""An HDF5 file with the images as bytes of variable length."""

import struct
from pathlib import Path

import numpy as np
import pytest

from tests.support.damage import overwrite
from tests.support.writers import Expected, Written

FORMAT = "hdf5"
CHECKED_AGAINST = "h5py"


def write(folder: Path, samples: list[Written]) -> Path:
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "photos.h5", "w") as file:
        images = file.create_dataset("image", len(samples), h5py.vlen_dtype(np.uint8))
        for number, sample in enumerate(samples):
            images[number] = np.frombuffer(sample.image, np.uint8)
        file["label"] = [sample.label for sample in samples]
        file["key"] = [sample.name for sample in samples]
    return folder / "photos.h5"


def expected(source: Path) -> list[Expected]:
    import h5py

    with h5py.File(source) as file:
        return [
            Expected(f"photos.h5/{key.decode()}", image.tobytes(), int(label))
            for key, image, label in zip(file["key"], file["image"], file["label"], strict=True)
        ]


def damage(source: Path) -> Path:
    """The place of one row's bytes leads elsewhere."""
    import h5py

    with h5py.File(source) as file:
        place = file["image"].id.get_offset() + 16 * 11
    return overwrite(source, place + 4, struct.pack("<Q", 8))
