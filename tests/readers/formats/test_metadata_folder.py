"""Folders of images with a metadata file: what Hugging Face's own ImageFolder reads from the same files."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from readers import BadSample, open_dataset
from tests.support.annotated import put
from tests.support.entries import fetch_samples
from tests.support.kinds import by_pillow
from tests.support.opening import assert_refused, open_with_warning

datasets = pytest.importorskip("datasets")

ROWS = [
    {"file_name": "b.jpg", "label": "dog", "note": "NA x"},
    {"file_name": "deep/a.jpg", "label": "cat", "note": "b"},
]


@pytest.fixture
def folder(tmp_path: Path, jpeg: Callable[..., bytes]) -> Path:
    """b.jpg, deep/a.jpg, and a mask of each."""
    files = {"b.jpg": jpeg(20, 30, seed=1), "deep/a.jpg": jpeg(20, 30, seed=2)}
    for number in range(2):
        mask = Image.fromarray(np.full((20, 30), number, np.uint8))
        files[f"m{number}.png"] = by_pillow("PNG", mask)
    return put(tmp_path / "photos", files)


def write(folder: Path, rows: list[dict[str, Any]], kind: str) -> None:
    path = folder / f"metadata.{kind}"
    if kind == "csv":
        pd.DataFrame(rows).to_csv(path, index=False)
    elif kind == "parquet":
        pd.DataFrame(rows).to_parquet(path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def reference(folder: Path, cache: Path) -> list[dict[str, Any]]:
    """The rows that datasets reads."""
    found = datasets.load_dataset("imagefolder", data_dir=str(folder), cache_dir=str(cache))
    return list(found["train"])


def pixels(picture: Any) -> Any:
    """The pixels of a file's content, or of a picture that datasets decoded."""
    opened = Image.open(io.BytesIO(picture)) if isinstance(picture, bytes | memoryview) else picture
    return np.asarray(opened).tolist()


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
@pytest.mark.filterwarnings("ignore:.*has no row for 2 images:UserWarning")
@pytest.mark.filterwarnings("default")
def test_rows_are_those_of_datasets(folder: Path, tmp_path: Path, kind: str) -> None:
    """Order, pictures and columns are those that load_dataset reads; labels come from the column, not from folders."""
    write(folder, ROWS, kind)
    expected = reference(folder, tmp_path / "cache")
    dataset = open_dataset(folder, classes=["cat", "dog"])
    found = fetch_samples(dataset)

    assert [pixels(s.image) for s in found] == [pixels(row["image"]) for row in expected]
    for name in ("label", "note"):
        texts = [bytes(s.fields[name]).decode() for s in found]
        assert texts == [row[name] for row in expected]
    assert [s.label for s in found] == [1, 0]
    assert dataset.class_names == ("cat", "dog")


@pytest.mark.parametrize(
    "kind", ["csv", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("jsonl", "parquet"))]
)
@pytest.mark.filterwarnings("default")
def test_further_files(folder: Path, tmp_path: Path, kind: str) -> None:
    """NAME_file_name are further files of a sample, a mask is its mask."""
    rows = [{**row, "mask_file_name": f"m{number}.png"} for number, row in enumerate(ROWS)]
    write(folder, rows, kind)
    expected = reference(folder, tmp_path / "cache")
    found = fetch_samples(open_dataset(folder))

    assert [(pixels(s.fields["mask.png"]), pixels(s.image)) for s in found] == [
        (pixels(row["mask"]), pixels(row["image"])) for row in expected
    ]
    assert [sorted(s.fields) for s in found] == [["jpg", "label", "mask.png", "note"]] * 2
    assert found[0].label == 1


@pytest.mark.filterwarnings("default")
def test_lists_of_files(folder: Path, tmp_path: Path) -> None:
    """NAME_file_names are numbered; without file_name the first of them is the image."""
    rows = [{"view_file_names": ["b.jpg", "deep/a.jpg"]}, {"view_file_names": ["m1.png"]}]
    write(folder, rows, "jsonl")
    expected = [row["view"] for row in reference(folder, tmp_path / "cache")]
    first, second = fetch_samples(open_with_warning("no row for 1 image", folder))

    found = [[first.image, first.fields["view.1.jpg"]], [second.image]]
    assert [[*map(pixels, row)] for row in found] == [[*map(pixels, row)] for row in expected]


@pytest.mark.parametrize("name", ["../b.jpg", "/etc/b.jpg", "file:///etc/b.jpg"])
def test_paths_that_leave_the_folder(folder: Path, name: str) -> None:
    """Names that lead out of the folder are refused, as datasets refuses them."""
    write(folder, [{"file_name": name}], "csv")
    assert_refused(r"line 2: .* (leaves the folder|is absolute|is a URL)", folder)
    write(folder, [{"file_name": "b.jpg", "mask_file_name": name}], "csv")
    assert_refused("line 2, column mask_file_name", folder)


def test_what_does_not_fit(folder: Path) -> None:
    """Pictures without a row and rows without a picture are said in one warning, and one bad sample each."""
    write(folder, [*ROWS, {"file_name": "gone.jpg", "label": "cat", "note": ""}], "csv")
    reason = (
        r"no row for 2 images \(m0.png\), which are left out and no image for 1 path \(gone.jpg\)"
    )
    with pytest.warns(UserWarning, match=reason) as said:
        dataset = open_dataset(folder)
    assert len(said) == 1
    assert isinstance(dataset.fetch([2])[0], BadSample)
    write(folder, ROWS, "jsonl")
    assert_refused(r"holds metadata.csv and metadata.jsonl, which both", folder)


def test_of_the_old_kind(folder: Path) -> None:
    """A metadata.jsonl that names images alone is the manifest that it was, and is compared with the folder, too."""
    write(folder, [{"file_name": row["file_name"], "label": 3} for row in ROWS], "jsonl")
    dataset = open_with_warning(r"no row for 2 images \(m0.png\)", folder)
    assert type(dataset).__name__ == "ManifestDataset"
    assert [s.label for s in fetch_samples(dataset)] == [3, 3]


@pytest.mark.parametrize(
    "kind", ["csv", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("jsonl", "parquet"))]
)
@pytest.mark.filterwarnings("default")
def test_splits_are_folders(tmp_path: Path, jpeg: Callable[..., bytes], kind: str) -> None:
    """A metadata file in the folder of each split; datasets reads the same splits."""
    root = tmp_path / "data"
    for split, names in {"train": ["0.jpg", "1.jpg", "2.jpg"], "test": ["0.jpg", "1.jpg"]}.items():
        put(root / split, dict.fromkeys(names, jpeg(20, 30)))
        write(root / split, [{"file_name": name, "text": split} for name in names], kind)
    cache = str(tmp_path / "cache")
    expected = datasets.load_dataset("imagefolder", data_dir=str(root), cache_dir=cache)

    for split in ("train", "test"):
        found = fetch_samples(open_dataset(root, split=split))
        texts = [bytes(one.fields["text"]).decode() for one in found]
        assert texts == [row["text"] for row in expected[split]]
    assert_refused("its splits are train, test", root, split="val")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_classes_of_splits_with_names_of_their_own(
    tmp_path: Path, jpeg: Callable[..., bytes], kind: str
) -> None:
    """A class that only training data has moves numbers: a warning names all of them."""
    for split, names in (("train", ["ant", "bee"]), ("test", ["bee"])):
        put(tmp_path / split, {f"{name}.jpg": jpeg(20, 30) for name in names})
        rows = [{"file_name": f"{name}.jpg", "label": name} for name in names]
        write(tmp_path / split, rows, kind)
    reason = r"test has 1 class and .*train 2, so that .* give both classes=\['ant', 'bee'\]"
    [unlike] = fetch_samples(open_with_warning(reason, tmp_path, split="test"))
    [alike] = fetch_samples(open_dataset(tmp_path, split="test", classes=["ant", "bee"]))
    assert (unlike.label, alike.label) == (0, 1)
    assert len(open_dataset(tmp_path, split="train")) == 2


@pytest.mark.parametrize("further", [{}, {"mask_file_name": "m0.png"}])
def test_objects_of_hugging_face(folder: Path, tmp_path: Path, further: dict[str, str]) -> None:
    """Boxes that datasets reads as a column are no targets here, which is said, in both kinds of metadata.jsonl."""
    told = {"bbox": [[1.0, 2.0, 10.0, 8.0]], "categories": [0]}
    write(folder, [{"file_name": "b.jpg", **further, "objects": told}], "jsonl")
    assert reference(folder, tmp_path / "cache")[0]["objects"] == told
    with (
        pytest.warns(UserWarning, match="no row for"),
        pytest.warns(UserWarning, match=r"the boxes of its column objects \(bbox, categories\)"),
    ):
        [sample] = fetch_samples(open_dataset(folder))
    assert json.loads(bytes(sample.fields["objects"])) == told
