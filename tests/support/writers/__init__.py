"""One module per format that writes samples with the format's own library, for tests/readers/formats/test_formats.py.

Each module has

    FORMAT     name of the format, as in readers.detect.registry
    CHECKED_AGAINST  the package that what we read is compared with, "-" where there is none
    write(folder, samples) -> Any
               writes the samples and returns what `open_dataset` is given; skips with
               pytest.importorskip where its library is missing
    expected(source) -> list[Expected]
               what the format's own library reads back, in stored order
    damage(source) -> Any
               makes exactly one sample in the middle unreadable or foreign, and returns the source
               (leave it out where the format cannot lose one sample)
    write_plain(folder, samples) -> Any
               as write, in the way whose payloads can be views, where write does not
    DECODED    True where a sample's image is not the file that was written
    HOLDS_VIDEOS  True where samples are videos of one picture, loaded as clips
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image


@dataclass(frozen=True)
class Written:
    """A sample to write: a JPEG, its class and a name without folder or extension."""

    name: str
    image: bytes
    label: int


@dataclass(frozen=True)
class Expected:
    """A sample as the format's own library gives it; the key may be what our reader makes of its place."""

    key: str
    image: bytes
    label: int


def write_images(folder: Path, samples: Sequence[Written], ending: str = "jpg") -> list[str]:
    """Write the image of each sample to a file of its name in a folder, and return the names of the files."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"{sample.name}.{ending}" for sample in samples]
    for name, sample in zip(names, samples, strict=True):
        (folder / name).write_bytes(sample.image)
    return names


def size_of(sample: Written) -> tuple[int, int]:
    """Return width and height of the image of a sample."""
    with Image.open(io.BytesIO(sample.image)) as image:
        return image.size


def break_link(path: Path) -> None:
    """Replace a file by a link that leads nowhere."""
    path.unlink()
    path.symlink_to("nowhere")
