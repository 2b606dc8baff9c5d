"""Pictures of clips: strips of frames, and moving pictures of before and after."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from bench.cli.preview import write_clips
from bench.output.errors import BenchError
from bench.video.clips import ClipSettings
from dali_pipes.preview import ClipPictures, animation, strips
from dali_pipes.preview.animation import durations_ms
from dali_pipes.preview.strips import shown_frames
from tests.support.videos import decode_all, pan, write_video

SIZE = (64, 80)
FLIP = "version: 1\noperations:\n- CenterCrop: 48\n- HorizontalFlip: {p: 1}\n- Normalize\n"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A class folder with one video of 30 frames, and a recipe in flip.yaml beside it."""
    folder = tmp_path / "data" / "cats"
    folder.mkdir(parents=True)
    write_video(folder / "a.mp4", pan(30, SIZE))
    (tmp_path / "flip.yaml").write_text(FLIP)
    return folder.parent


def cell(picture: Path, place: int, line: int, size: tuple[int, int]) -> NDArray[np.int64]:
    """A frame in the strips of the first clip; line 0 is the source, line 1 the first view."""
    column = SIZE[1] + strips.GAP
    left = strips.MARGIN + place * column
    top = strips.HEADING + line * (SIZE[0] + strips.GAP + strips.CAPTION)
    with Image.open(picture) as image:
        return np.asarray(image)[top : top + size[0], left : left + size[1]].astype(int)


def test_strips_show_the_frames(data: Path, tmp_path: Path) -> None:
    """The first row has the video's own frames, the second what the recipe makes of the same ones."""
    out = tmp_path / "strips.png"
    settings = ClipSettings(num_frames=5, stride=3)

    write_clips(str(data), str(tmp_path / "flip.yaml"), settings, out, count=1, seed=4)

    frames = np.array(decode_all(data / "cats" / "a.mp4")[1]).astype(int)
    found = []
    for place in range(5):
        shown = cell(out, place, 0, SIZE)
        differences = np.abs(frames - shown).mean(axis=(1, 2, 3))
        found.append(int(differences.argmin()))
        assert differences.min() < 2  # rounding of colours
        assert np.sort(differences)[1] > 4  # which other frames would not pass
        augmented = cell(out, place, 1, (48, 48))
        expected = frames[found[-1], 8:56, 16:64][:, ::-1]
        assert np.abs(augmented - expected).mean() < 2
        assert np.abs(augmented - expected[:, ::-1]).mean() > 4
    assert np.diff(found).tolist() == [3] * 4


def test_long_clips_show_some_frames(data: Path, tmp_path: Path) -> None:
    """The first and the last frame are always there; the picture is as wide as eight frames."""
    out = tmp_path / "strips.png"

    write_clips(str(data), "video_eval", ClipSettings(20, 1), out, count=3, seed=0)

    places = shown_frames(20)
    assert (len(places), places[0], places[-1]) == (8, 0, 19)
    assert shown_frames(3) == [0, 1, 2]
    with Image.open(out) as picture:
        assert picture.width == strips.MARGIN + 8 * (strips.HEIGHT + strips.GAP)


def test_other_seed_other_frames(data: Path, tmp_path: Path) -> None:
    """The seed chooses the frames."""
    pictures = []
    for seed in (0, 0, 1):
        out = tmp_path / "strips.png"
        write_clips(
            str(data), str(tmp_path / "flip.yaml"), ClipSettings(4, 1), out, count=1, seed=seed
        )
        pictures.append(out.read_bytes())

    assert pictures[0] == pictures[1] != pictures[2]


@pytest.mark.parametrize("ending", animation.MOVING)
def test_animation_plays_as_the_video(ending: str, tmp_path: Path) -> None:
    """There is a page for every frame, shown as long as the video shows it, also at a variable rate."""
    source = tmp_path / "source"
    source.mkdir()
    steps = np.array([1, 1, 3, 2, 1, 4, 1, 2] * 2) * 512  # of 1 / 12800 s: multiples of 40 ms
    pts = np.cumsum(steps) - steps[0]
    write_video(source / "a.mp4", pan(16, SIZE), pts=pts.tolist())
    out = tmp_path / f"moving{ending}"

    write_clips(
        str(source),
        "video_eval",
        ClipSettings(16, 1),
        tmp_path / "strips.png",
        count=1,
        seed=0,
        animate=out,
    )

    durations = []
    with Image.open(out) as picture:
        assert picture.n_frames == 16  # type: ignore[attr-defined]
        assert picture.info.get("loop") == 0
        assert picture.height == animation.HEADING + 256
        for page in range(16):
            picture.seek(page)
            picture.load()
            durations.append(round(picture.info["duration"]))
    assert durations[:-1] == (np.diff(pts) * 1000 // 12800).tolist()


def test_held_frames_have_pages_of_their_own(tmp_path: Path) -> None:
    """A clip that is longer than its video holds the last frame, and still has all its pages."""
    source = tmp_path / "source"
    source.mkdir()
    write_video(source / "a.mp4", pan(3, SIZE))
    out = tmp_path / "moving.gif"

    write_clips(
        str(source),
        "video_eval",
        ClipSettings(6, 1),
        tmp_path / "strips.png",
        count=1,
        seed=0,
        animate=out,
    )

    with Image.open(out) as picture:
        assert picture.n_frames == 6  # type: ignore[attr-defined]


def test_durations_come_from_the_video() -> None:
    """Each frame lasts until the next; held ones and the last as long as is usual; never too short to see."""
    assert durations_ms(np.array([0.0, 0.04, 0.16])).tolist() == [40, 120, 80]
    assert durations_ms(np.array([0.0, 0.04, 0.08, 0.08])).tolist() == [40, 40, 40, 40]
    assert durations_ms(np.array([1.0])).tolist() == [40]
    assert durations_ms(np.array([0.0, 0.001])).tolist() == [20, 20]


def test_every_view_has_a_strip() -> None:
    """A recipe of three views gives three strips below the source."""
    one = [np.zeros((20, 30, 3), np.uint8)] * 2
    heights = []
    for count in (1, 3):
        views = [one] * count
        clip = ClipPictures("a.mp4", "", np.arange(2), np.arange(2) / 25, one, views)
        heights.append(strips.render_strips([clip]).height)

    assert heights[1] - heights[0] == 2 * (20 + strips.GAP)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"out": "strips.txt"}, "a picture's name must end in .png"),
        ({"animate": "moving.mp4"}, "a moving picture's name must end in .webp, .gif, .png"),
        ({"count": 0}, "count must be 1 or more, got 0"),
    ],
)
def test_wrong_arguments(change: dict[str, object], words: str, data: Path, tmp_path: Path) -> None:
    """What cannot be written is refused before anything is decoded."""
    out = tmp_path / str(change.get("out", "strips.png"))
    animate = tmp_path / str(change["animate"]) if "animate" in change else None
    count = int(str(change.get("count", 1)))

    with pytest.raises(BenchError, match=words):
        write_clips(
            str(data), "video_eval", ClipSettings(), out, count=count, seed=0, animate=animate
        )
    assert not out.exists()
