"""The process of a JPEG is the one that its writer used."""

import io

import numpy as np
import pytest
from PIL import Image

from readers.image.jpeg_process import jpeg_process

PICTURE = Image.fromarray(
    np.arange(40 * 60 * 3, dtype=np.uint32).astype(np.uint8).reshape(40, 60, 3)
)


def encoded(**options: object) -> bytes:
    """A JPEG as Pillow writes it."""
    buffer = io.BytesIO()
    PICTURE.save(buffer, "jpeg", **options)  # type: ignore[arg-type]
    return buffer.getvalue()


@pytest.mark.parametrize("progressive", [False, True])
def test_baseline_and_progressive(progressive: bool) -> None:
    """As Pillow says of its own file, also where EXIF, a profile and a comment stand in front."""
    for more in (
        {},
        {"exif": b"Exif\0\0" + bytes(3000), "icc_profile": bytes(500), "comment": b"x"},
    ):
        data = encoded(progressive=progressive, **more)
        with Image.open(io.BytesIO(data)) as image:
            told = bool(image.info.get("progressive"))
        assert told == progressive
        assert jpeg_process(data) == ("progressive" if progressive else "baseline")
        assert jpeg_process(memoryview(data)) == jpeg_process(data)


@pytest.mark.parametrize(
    ("marker", "name"),
    [
        (0xC1, "extended sequential"),
        (0xC3, "lossless"),
        (0xC6, "hierarchical"),
        (0xC9, "arithmetic"),
    ],
)
def test_rare_processes(marker: int, name: str) -> None:
    """The marker of the frame tells (T.81, table B.1), here put in the place of baseline's."""
    data = encoded()
    at = data.index(b"\xff\xc0")

    assert jpeg_process(data[:at] + bytes([0xFF, marker]) + data[at + 2 :]) == name


def test_padding_and_tables_in_front() -> None:
    """Bytes 0xFF before a marker are no segment, and tables of codes (0xC4) no frame."""
    data = encoded()
    at = data.index(b"\xff\xc0")

    assert jpeg_process(data[:at] + b"\xff\xff" + data[at:]) == "baseline"
    table = b"\xff\xc4\0\x03\0"
    assert jpeg_process(data[:2] + table + data[2:]) == "baseline"


@pytest.mark.parametrize("data", [b"", b"\xff\xd8", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\0\0\0\0\0\0"])
def test_no_jpeg(data: bytes) -> None:
    """Other files, and those that end before their frame, have none."""
    assert jpeg_process(data) is None
    assert jpeg_process(encoded()[:100]) is None
