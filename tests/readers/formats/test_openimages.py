"""OpenImages: boxes and labels as pandas reads their tables, boxes that move with their images, and tables that are none."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from readers import BadSample, open_dataset
from tests.support.annotated import picture, put
from tests.support.entries import json_of
from tests.support.opening import assert_refused
from tests.support.writers.openimages import COLUMNS

IDS = ("0001eeaf4aed83f9", "000595fe6fee6369", "00075905539074f2")
NAMED = '/m/0bt9lr,Dog\n/m/01g317,"Person, standing"\n'
SHARES = f"{8 / 64},{40 / 64},{4 / 48},{36 / 48}"
ROWS = (
    f"{IDS[0]},xclick,/m/0bt9lr,1,{SHARES},0,1,0,0,-1",
    f"{IDS[1]},activemil,/m/01g317,1,0,1,0,1,-1,-1,1,0,0",
    f"{IDS[0]},xclick,/m/01g317,1,0.5,1,0.25,1,1,0,0,0,0",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    images = {f"train/{name}.jpg": picture(kind="JPEG") for name in IDS}
    return put(tmp_path, {**images, "class-descriptions-boxable.csv": NAMED})


def table(folder: Path, *rows: str, columns: tuple[str, ...] = COLUMNS, end: str = "\n") -> Path:
    path = folder / "oidv6-train-annotations-bbox.csv"
    path.write_text(end.join([",".join(columns), *rows, ""]), newline="")
    return path


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_boxes_are_those_of_the_table(folder: Path, end: str) -> None:
    """Boxes in pixels, classes in the order of the descriptions, flags as stored, groups left out unless asked for."""
    path = table(folder, *ROWS, end=end)
    dataset = open_dataset(path, crowd=True)
    theirs = pd.read_csv(path)
    names = pd.read_csv(folder / "class-descriptions-boxable.csv", header=None)

    assert dataset.class_names == tuple(names[1])
    assert [one.key.partition("/")[2] for one in dataset.fetch([0, 1])] == [
        *theirs.ImageID.unique()
    ]
    for sample, (_, rows) in zip(
        dataset.fetch([0, 1]), theirs.groupby("ImageID", sort=False), strict=True
    ):
        shares = rows[["XMin", "YMin", "XMax", "YMax"]].to_numpy()
        assert np.allclose(json_of(sample)["boxes"], shares * [64, 48, 64, 48])
        labels = [names[0][label] for label in json_of(sample)["labels"]]
        assert labels == list(rows.LabelName)
        for column, name in (
            ("IsOccluded", "occluded"),
            ("IsInside", "inside"),
            ("IsGroupOf", "iscrowd"),
        ):
            assert json_of(sample)[name] == list(rows[column])
    plain = open_dataset(path)
    assert [len(json_of(one)["boxes"]) for one in plain.fetch([0, 1])] == [2, 0]
    assert plain.fingerprint != dataset.fingerprint


def test_labels_of_images(folder: Path) -> None:
    """What was verified to be there and not to be there; a class in neither list is not known."""
    rows = (
        f"{IDS[0]},verification,/m/0bt9lr,1",
        f"{IDS[0]},verification,/m/01g317,0",
        f"{IDS[2]},verification,/m/01g317,1",
    )
    path = table(folder, *rows, columns=COLUMNS[:4])
    found = open_dataset(path).fetch([0, 1])

    assert [json.loads(bytes(one.fields["image_labels"])) for one in found] == [
        {"present": [0], "absent": [1]},
        {"present": [1], "absent": []},
    ]
    assert "json" not in found[0].fields
    assert [one.label for one in found] == [-1, -1]
    row = f"{IDS[0]},machine,/m/0bt9lr,0.7"
    [bad] = open_dataset(table(folder, row, columns=COLUMNS[:4])).fetch([0])
    assert "a label has the confidence 0.7" in bad.reason


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (
            ("0.125,0.625", "0.625,0.125"),
            r"box 0 of .*: XMin is 0.625 and XMax 0.125, .* \(columns X X Y Y\?\)",
        ),
        (("0.125,0.625", "8,40"), "box 0 of .*: XMin is 8.0 and XMax 40.0"),
        (("0.125,0.625", "a,0.625"), "XMin must be a number, got 'a'"),
        (("0.125,0.625", "nan,0.625"), "XMin must be a number, got 'nan'"),
        (("/m/0bt9lr", "/m/none"), 'the label "/m/none" is not among the descriptions'),
        ((",1,0,0,-1", ""), "a row has 9 columns, the header 13"),
        (
            (",0,1,0,0,-1", ",0,1,yes,0,-1"),
            "box 0 of .*: IsGroupOf must be -1 or 0 or 1, got 'yes'",
        ),
        ((",0,1,0,0,-1", ",2,1,0,0,-1"), "box 0 of .*: IsOccluded must be"),
        ((IDS[0], "gone"), "the file gone.jpg cannot be read"),
        ((IDS[0], "../train/x"), "lies outside the folder of the images"),
    ],
)
def test_rows_that_are_wrong(folder: Path, change: tuple[str, str], match: str) -> None:
    """They make one bad sample with its reason."""
    path = table(folder, ROWS[0].replace(*change), ROWS[1])
    bad, sound = open_dataset(path).fetch([0, 1])

    assert re.search(match, bad.reason), bad.reason
    assert not isinstance(sound, BadSample)


def test_files_that_are_missing_or_others(folder: Path) -> None:
    """Tables of masks, without rows or descriptions, images that are elsewhere; a header of descriptions is none of them."""
    masks = ("MaskPath", "ImageID", "LabelName", "XMin", "YMin", "XMax", "YMax")
    for columns, rows, match in (
        (masks, ROWS, "has masks, which are not read from it"),
        (("ImageID", "LabelName", "x"), ROWS, "has no column Confidence: give OpenImages' table"),
        (COLUMNS, (), "has no rows"),
    ):
        assert_refused(match, table(folder, *rows, columns=columns))
    path = table(folder, *ROWS)
    (folder / "train").rename(folder / "pictures")
    assert_refused(r"holds 0001eeaf4aed83f9.jpg .*: name the folder with images=", path)
    assert len(open_dataset(path, images=folder / "pictures")) == 2
    described = folder / "class-descriptions-boxable.csv"
    described.write_text("LabelName,DisplayName\n" + NAMED)
    assert open_dataset(path, images=folder / "pictures").class_names == ("Dog", "Person, standing")
    for text, match in ((NAMED + NAMED, "each label once"), ("", "each label once")):
        described.write_text(text)
        assert_refused(match, path, images=folder / "pictures")
    described.unlink()
    assert_refused(
        r"has no files class-descriptions.*: say descriptions=", path, images=folder / "pictures"
    )
