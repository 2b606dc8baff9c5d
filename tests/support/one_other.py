"""Six samples in any format, of which the fourth has other bytes; and what a loader makes of them."""

import importlib
import io
import pkgutil
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from PIL import Image

import tests.support.writers
from dali_pipes.stages.encoded_image import image_of
from readers import BadSample, Dataset, open_dataset
from readers.storage.copies import copied_sample
from tests.support.tars import tar_of
from tests.support.writers import Written

OTHER = 3
"""The index of the sample that is not like the others, in formats that keep the order of files."""
_NUM_SAMPLES = 6


@cache
def all_writers() -> dict[str, ModuleType]:
    """Return the modules of `tests.support.writers` by the names of their formats."""
    modules = [
        importlib.import_module(f"tests.support.writers.{found.name}")
        for found in pkgutil.iter_modules(tests.support.writers.__path__)
    ]
    return {module.FORMAT: module for module in modules}


def writer_of(format_name: str) -> ModuleType:
    """Return the module of `tests.support.writers` that writes a format."""
    return all_writers()[format_name]


def jpeg(seed: int) -> bytes:
    """A small JPEG of noise."""
    stream = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 256, (24, 32, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(stream, "JPEG")
    return stream.getvalue()


def samples_with(other: bytes) -> list[Written]:
    """Six samples; the image of one of them is `other`."""
    return [
        Written(f"photo-{n}", other if n == OTHER else jpeg(n), n % 2) for n in range(_NUM_SAMPLES)
    ]


def write_and_open(format_name: str, folder: Path, other: bytes) -> Dataset:
    """Write such samples in a format and open them."""
    writer = writer_of(format_name)
    source = writer.write(folder, samples_with(other))
    return open_dataset(source, **getattr(writer, "OPTIONS", {}))


def write_stream(folder: Path, other: bytes) -> Path:
    """Write such samples as a tar."""
    path = folder / "train.tar"
    path.write_bytes(tar_of((f"{one.name}.jpg", one.image) for one in samples_with(other)))
    return path


def reason_of(entry: Any) -> str:
    """Why a loader takes a sample for bad, "" where it does not; boxes and masks are not looked at."""
    if not isinstance(entry, BadSample):
        entry = copied_sample(entry)
    if not isinstance(entry, BadSample):
        entry = image_of(entry, max_pixels=1 << 26, of_clips=False)
    return entry.reason if isinstance(entry, BadSample) else ""


def reasons(dataset: Dataset) -> list[str]:
    """`reason_of` each sample."""
    return [reason_of(entry) for entry in dataset.fetch(range(len(dataset)))]
