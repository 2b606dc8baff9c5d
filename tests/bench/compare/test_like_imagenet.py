"""Photographs of ImageNet's size and weight, made of larger ones."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from bench.compare.like_imagenet import app, digest, make_like_imagenet
from bench.output.errors import BenchError


def write(path: Path, height: int, width: int, *, noise: int, progressive: bool = False) -> None:
    rng = np.random.default_rng(height)
    rows = np.linspace(0, 200, height)[:, None, None] + rng.integers(0, noise, (height, width, 3))
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(rows.astype(np.uint8)).save(path, quality=97, progressive=progressive)


def test_size_weight_and_process(tmp_path: Path) -> None:
    """Of each large one a file of 0.2 megapixels and 130 kB at most, as progressive as it was; twice the same."""
    write(tmp_path / "in" / "a.jpg", 700, 900, noise=55)
    write(tmp_path / "in" / "b" / "c.jpg", 900, 600, noise=2, progressive=True)
    write(tmp_path / "in" / "small.jpg", 300, 300, noise=2)

    for turn in ("one", "two"):
        assert make_like_imagenet(tmp_path / "in", tmp_path / turn) == 2

    made = {path.name: path.read_bytes() for path in sorted((tmp_path / "one").iterdir())}
    assert made == {path.name: path.read_bytes() for path in (tmp_path / "two").iterdir()}
    assert list(made) == ["a.jpg", "b_c.jpg"]
    assert all(len(data) <= 130_000 for data in made.values())
    assert len(made["a.jpg"]) > 100_000
    for name, is_progressive in (("a.jpg", False), ("b_c.jpg", True)):
        with Image.open(tmp_path / "one" / name) as image:
            assert image.width * image.height == pytest.approx(200_000, rel=0.01)
            assert bool(image.info.get("progressive")) == is_progressive


def test_a_set_has_a_digest(tmp_path: Path) -> None:
    """It is that of the names and the bytes, and the command tells it."""
    write(tmp_path / "in" / "a.jpg", 500, 600, noise=2)
    told = CliRunner().invoke(app, [str(tmp_path / "in"), str(tmp_path / "out")]).output
    (made,) = (tmp_path / "out").iterdir()

    first = digest(tmp_path / "out")
    assert f"1 photographs in {tmp_path / 'out'}, digest {first}" in told.replace("\n", "")
    moved = made.rename(made.with_name("b.jpg"))
    renamed = digest(tmp_path / "out")
    made.write_bytes(moved.read_bytes() + b"\0")
    moved.unlink()
    assert len({first, renamed, digest(tmp_path / "out")}) == 3


def test_without_a_large_photograph(tmp_path: Path) -> None:
    """It is said."""
    write(tmp_path / "small.jpg", 300, 300, noise=2)
    with pytest.raises(BenchError, match="no RGB JPEG of 200000 pixels or more"):
        make_like_imagenet(tmp_path, tmp_path / "out")
