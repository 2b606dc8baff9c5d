"""Data to prepare."""

from pathlib import Path

import pytest
from PIL import Image

from tests.support.packed import Jpeg


@pytest.fixture
def source(tmp_path: Path, jpeg: Jpeg) -> Path:
    """Three class folders with eight photographs each, one of them with a mask and a description."""
    folder = tmp_path / "source"
    for place, name in enumerate(("cats", "dogs", "owls")):
        (folder / name).mkdir(parents=True)
        for number in range(8):
            (folder / name / f"{number}.jpg").write_bytes(jpeg(60, 90, seed=8 * place + number))
    (folder / "dogs" / "3.json").write_text('{"boxes": []}')
    Image.new("L", (90, 60)).save(folder / "dogs" / "3.mask.png")
    return folder
