"""Pictures of clips: strips of frames, and moving pictures of before and after."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bench.compare.clips import ClipSettings
from bench.output.arguments import schedule_from
from bench.output.errors import BenchError
from bench.preview import Shown, write_clips
from dali_pipes.preview import strips
from dali_pipes.preview.strips import durations_ms
from tests.support.videos import pan, write_video

SIZE = (64, 80)
EVAL = schedule_from("video_eval")
FLIP = "version: 1\noperations:\n- CenterCrop: 48\n- HorizontalFlip: {p: 1}\n- Normalize\n"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A class folder with one video of 30 frames, and a recipe in flip.yaml beside it."""
    folder = tmp_path / "data" / "cats"
    folder.mkdir(parents=True)
    write_video(folder / "a.mp4", pan(30, SIZE))
    (tmp_path / "flip.yaml").write_text(FLIP)
    return folder.parent


def test_other_seed_other_frames(data: Path, tmp_path: Path) -> None:
    """The seed chooses the frames."""
    pictures = []
    for seed in (0, 0, 1):
        out = tmp_path / "strips.png"
        recipe = schedule_from(str(tmp_path / "flip.yaml"))
        write_clips(str(data), recipe, ClipSettings(4, 1), out, Shown(1, seed=seed))
        pictures.append(out.read_bytes())

    assert pictures[0] == pictures[1] != pictures[2]


def test_strips_of_several_epochs_and_engines(data: Path, tmp_path: Path) -> None:
    """Each draw is a block of its own; of engines each is a strip, and mixing finds its neighbours."""
    recipe = tmp_path / "mix.yaml"
    recipe.write_text("version: 1\noperations:\n- CenterCrop: 48\n- MixUp: {num_classes: 2}\n")
    heights = []
    for path, shown in (
        (tmp_path / "flip.yaml", Shown(1)),
        (tmp_path / "flip.yaml", Shown(1, draws=2)),
        (tmp_path / "flip.yaml", Shown(1, engines=True)),
        (recipe, Shown(1)),
    ):
        out = tmp_path / "strips.png"
        write_clips(str(data), schedule_from(str(path)), ClipSettings(2, 1), out, shown)
        with Image.open(out) as picture:
            heights.append(picture.height)
    one, two, engines, mixed = heights
    assert two > 1.8 * one
    assert engines > 1.5 * one
    assert mixed > 100


@pytest.mark.parametrize(
    "ending",
    [
        strips.MOVING[0],
        *(pytest.param(ending, marks=pytest.mark.long) for ending in strips.MOVING[1:]),
    ],
)
def test_animation_plays_as_the_video(ending: str, tmp_path: Path) -> None:
    """There is a page for every frame, shown as long as the video shows it, also at a variable rate."""
    source = tmp_path / "source"
    source.mkdir()
    steps = np.array([1, 1, 3, 2, 1, 4, 1, 2] * 2) * 512  # of 1 / 12800 s: multiples of 40 ms
    pts = np.cumsum(steps) - steps[0]
    write_video(source / "a.mp4", pan(16, SIZE), pts=pts.tolist())
    num_frames = 18  # the last two hold the end of the video, and have pages of their own
    out = tmp_path / f"moving{ending}"

    write_clips(
        str(source),
        EVAL,
        ClipSettings(num_frames, 1),
        tmp_path / "strips.png",
        Shown(1),
        animate=out,
    )

    durations = []
    with Image.open(out) as picture:
        assert picture.n_frames == num_frames  # type: ignore[attr-defined]
        assert picture.info.get("loop") == 0
        assert picture.height > strips.ANIMATION_ROOM[0]
        for page in range(num_frames):
            picture.seek(page)
            picture.load()
            durations.append(round(picture.info["duration"]))
    assert durations[:15] == (np.diff(pts) * 1000 // 12800).tolist()


def test_durations_come_from_the_video() -> None:
    """Each frame lasts until the next; held ones and the last as long as is usual; never too short to see."""
    assert durations_ms(np.array([0.0, 0.04, 0.16])).tolist() == [40, 120, 80]
    assert durations_ms(np.array([0.0, 0.04, 0.08, 0.08])).tolist() == [40, 40, 40, 40]
    assert durations_ms(np.array([1.0])).tolist() == [40]
    assert durations_ms(np.array([0.0, 0.001])).tolist() == [20, 20]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"out": "strips.txt"}, "a picture's name must end in .png"),
        ({"animate": "moving.mp4"}, "a moving picture's name must end in .webp, .gif, .png"),
        (
            {"animate": "moving.gif", "engines": True},
            "shows the draws of one engine: leave --engines",
        ),
    ],
)
def test_wrong_arguments(change: dict[str, object], words: str, data: Path, tmp_path: Path) -> None:
    """What cannot be written is refused before anything is decoded."""
    out = tmp_path / str(change.get("out", "strips.png"))
    animate = tmp_path / str(change["animate"]) if "animate" in change else None
    shown = Shown(1, engines="engines" in change)

    with pytest.raises(BenchError, match=words):
        write_clips(str(data), EVAL, ClipSettings(), out, shown, animate=animate)
    assert not out.exists()
