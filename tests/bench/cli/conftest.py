"""Data for the commands."""

from collections.abc import Callable
from pathlib import Path

import pytest

Jpeg = Callable[..., bytes]


@pytest.fixture
def data(tmp_path: Path, jpeg: Jpeg) -> Path:
    """Two class folders with five small photographs each."""
    folder = tmp_path / "data"
    for name in ("cats", "dogs"):
        (folder / name).mkdir(parents=True)
        for number in range(5):
            (folder / name / f"{number}.jpg").write_bytes(jpeg(60 + 8 * number, 90, seed=number))
    return folder
