"""`gpu-aug preview` of images."""

from pathlib import Path

import numpy as np
from PIL import Image

from dali_pipes.preview.annotate import _tinted
from tests.support.commands import Run


def test_preview_has_a_row_per_engine(run: Run, data: Path, tmp_path: Path) -> None:
    """The grid has a column per image, and a row for the originals and for each pair that runs."""
    from dali_pipes import available_decoders
    from dali_pipes.preview.images import _GAP, _HEADING, _MARGIN
    from dali_pipes.preview.pairs import ENGINES

    path = tmp_path / "grid.png"

    code, _, _ = run("preview", data, "-o", path, "--count", 3)

    num_rows = 1 + len(ENGINES) * sum(not reason for reason in available_decoders().values())
    with Image.open(path) as picture:
        assert picture.size == (_MARGIN + 3 * (224 + _GAP), _HEADING + num_rows * (224 + _GAP))
    assert code == 0


def test_preview_names_what_it_leaves_out(run: Run, data: Path, tmp_path: Path) -> None:
    """Images that do not decode have no column, and a line."""
    path = data / "cats" / "0.jpg"
    path.write_bytes(path.read_bytes()[:300])

    code, printed, _ = run("preview", data, "-o", tmp_path / "picture.png", "--count", 3)

    assert code == 0
    assert printed.count("left out: ") == 1
    assert "0.jpg: " in printed


def test_preview_draws_targets(run: Run, tmp_path: Path) -> None:
    """A box around a gray picture is drawn where the recipe moves it, and on the original."""
    folder = tmp_path / "data" / "gray"
    folder.mkdir(parents=True)
    Image.new("RGB", (100, 100), (128, 128, 128)).save(folder / "a.png")
    (folder / "a.json").write_text('{"boxes": [[10, 20, 40, 60]], "labels": [1]}')
    (tmp_path / "flip.yaml").write_text(
        "version: 1\noperations:\n- CenterCrop: 100\n- HorizontalFlip: {p: 1}\n"
    )
    path = tmp_path / "grid.png"

    code, _, _ = run("preview", folder.parent, "--recipe", tmp_path / "flip.yaml", "-o", path)

    from dali_pipes.preview.images import _GAP, _HEADING, _MARGIN

    assert code == 0
    with Image.open(path) as picture:
        cells = [
            np.asarray(picture)[top : top + 100, _MARGIN : _MARGIN + 100].astype(int)
            for top in (_HEADING, _HEADING + 100 + _GAP)
        ]
    boxes = []
    for cell in cells:
        rows, columns = np.nonzero(np.ptp(cell, axis=2))  # coloured, not gray
        boxes.append([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1])
    assert np.array_equal(boxes, [[10, 20, 40, 60], [60, 20, 90, 60]])


def test_members_of_masks_differ_and_ignored_pixels_are_gray() -> None:
    """Neighbouring numbers get other hues; 255 is what losses leave out."""
    picture = np.zeros((1, 4, 3), np.uint8)
    tinted = _tinted(picture, np.array([[0, 1, 2, 255]]))[0].tolist()

    assert tinted[0] == [0, 0, 0]
    assert tinted[1] != tinted[2]
    assert len(set(tinted[3])) == 1
