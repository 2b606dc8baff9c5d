"""`gpu-aug preview` of images."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bench.output.errors import BenchError
from bench.preview import Shown, _save
from dali_pipes.preview.page import Cell, Preview, Row
from gpu_aug import BoxParams, Recipe, Resize
from tests.support.commands import Run
from tests.support.lerobot import DEPTH, TOP, Depth, Robot
from tests.support.videos import pan, write_video

FLIP = "version: 1\noperations:\n- CenterCrop: 90\n- HorizontalFlip: {p: 1}\n"


@pytest.fixture
def flip(tmp_path: Path) -> Path:
    path = tmp_path / "flip.yaml"
    path.write_text(FLIP)
    return path


def test_preview_has_a_column_for_each_draw(
    run: Run, data: Path, flip: Path, tmp_path: Path
) -> None:
    """The original, and one picture for each of so many epochs."""
    pictures = []
    for draws, epoch in ((1, 0), (7, 0), (1, 7)):
        path = tmp_path / "grid.png"
        options = ("--count", 2, "--draws", draws, "--epoch", epoch)
        code, printed, _ = run("preview", data, "--recipe", flip, "-o", path, *options)
        assert (code, printed) == (0, f"written: {path}\n")
        with Image.open(path) as picture:
            pictures.append(picture.copy())
    first, seven, later = pictures
    assert seven.width - first.width > 5 * 90
    assert first.tobytes() != later.tobytes()  # the number of the epoch is written below


def test_preview_of_engines_has_a_row_per_engine(
    run: Run, data: Path, flip: Path, tmp_path: Path
) -> None:
    """The pairs stand below each other."""
    heights = []
    for options in (["--draws", 1], ["--engines"]):
        path = tmp_path / "grid.png"
        assert run("preview", data, "--recipe", flip, "-o", path, "--count", 1, *options)[0] == 0
        with Image.open(path) as picture:
            heights.append(picture.height)
    assert heights[1] - heights[0] > 3 * 90


def test_preview_names_what_it_leaves_out(run: Run, data: Path, flip: Path, tmp_path: Path) -> None:
    """Images that do not decode have no row, and a line."""
    path = data / "cats" / "0.jpg"
    path.write_bytes(path.read_bytes()[:300])
    options = ("--recipe", flip, "--count", 3, "--draws", 1)

    code, printed, _ = run("preview", data, "-o", tmp_path / "picture.png", *options)

    assert code == 0
    assert printed.count("left out: ") == 1
    assert "0.jpg: " in printed


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        ({"engines": True, "draws": 2}, "--engines shows one draw on every engine, got --draws 2"),
        ({"engines": True, "engine": "kornia"}, "got --engine kornia as well"),
    ],
)
def test_wrong_settings(shown: dict[str, object], words: str) -> None:
    """Every bad value is refused in one sentence that says what is allowed."""
    with pytest.raises(BenchError, match=words):
        Shown(**shown)  # type: ignore[arg-type]


def test_too_large_pictures_are_refused(tmp_path: Path) -> None:
    """WebP holds 16,383 pixels a side."""
    page = Preview([Row([Cell(Image.new("RGB", (3, 17_000)))])])
    _save(page, tmp_path / "fits.png")
    with pytest.raises(BenchError, match=r"pixels, too many for a.webp: .* or write .png"):
        _save(page, tmp_path / "a.webp")


def test_what_preview_does_not_draw(run: Run, tmp_path: Path) -> None:
    """Episodes of robots, and options of images for videos: one sentence."""
    (tmp_path / "videos").mkdir()
    write_video(tmp_path / "videos" / "a.mp4", pan(4, (32, 48)))
    robot = Robot().write(tmp_path / "robot")

    for arguments, words in (
        ([robot], "holds a robot's episodes, of which preview draws no pictures"),
        ([tmp_path / "videos", "--channels", 5], "--channels is for images, and"),
        ([tmp_path / "videos", "--depth", "12"], "--depth is for images, and"),
    ):
        code, _, error = run("preview", *arguments, "-o", tmp_path / "picture.png")
        assert code == 2
        assert words in error
    assert not (tmp_path / "picture.png").exists()


@pytest.mark.parametrize(
    ("params", "box"),
    [
        (BoxParams("xyxyxyxy"), [10, 10, 40, 10, 40, 30, 10, 30]),
        (BoxParams("yolo"), [0.5, 0.5, 0.2, 0.2]),
    ],
    ids=["oriented", "shares"],
)
def test_boxes_without_a_format_have_that_of_the_recipe(
    run: Run, tmp_path: Path, params: BoxParams, box: list[float]
) -> None:
    """A picture is drawn, as a Loader with this recipe reads such boxes."""
    folder = tmp_path / "photos"
    folder.mkdir()
    Image.new("RGB", (80, 60)).save(folder / "0.jpg")
    (folder / "0.json").write_text(json.dumps({"boxes": [box], "labels": [0]}))
    Recipe([Resize((64, 64))], boxes=params).save(tmp_path / "r.yaml")
    out = tmp_path / "p.png"

    code, _, error = run("preview", folder, "--recipe", tmp_path / "r.yaml", "-o", out)

    assert code == 0, error
    assert out.exists()


def test_inspection_names_the_cameras_of_a_robot(run: Run, tmp_path: Path) -> None:
    """All of them, as `inspect` shows only the sizes of the first; and the episodes that were chosen."""
    numbers = np.zeros((14, 16, 24), np.uint16)
    robot = Robot(depths={DEPTH: Depth(numbers, {"video.depth_min": 0.0}, codec="ffv1")}).write(
        tmp_path / "robot"
    )
    code, printed, _ = run("inspect", robot, "--option", "episodes=[0, 2]")

    assert code == 0
    assert re.search(r"episodes +2, at 10 frames per second", printed)
    for name, shown in ((TOP, "pictures of 48x64"), (DEPTH, "distances of 16x24")):
        assert re.search(rf"camera +{name}: {shown}", printed)
