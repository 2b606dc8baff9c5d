"""Photographs for the steps of a visit, and the scale of a rehearsal."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bench.gpu.rows import Rows
from bench.gpu.scale import Scale, scale_for


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pictures that differ and are nowhere flat."""
    folder = tmp_path_factory.mktemp("data")
    rows, columns = np.mgrid[:300, :400]
    for number in range(4):
        waves = [127 + 120 * np.sin(rows / a + columns / b + number) for a, b in ((9, 13), (17, 7 + 3 * number), (11, 19))]  # fmt: skip
        noise = np.random.default_rng(number).normal(0, 4, (300, 400, 3))
        pixels = np.clip(np.stack(waves, -1) + noise, 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.jpg", quality=95)
    return folder


@pytest.fixture
def scale() -> Scale:
    """A rehearsal with small photographs only."""
    return replace(scale_for(rehearse=True), pictures={(375, 500): (4, 4)})


@pytest.fixture
def rows(tmp_path: Path) -> Rows:
    """Empty ones."""
    return Rows(tmp_path / "step.json")
