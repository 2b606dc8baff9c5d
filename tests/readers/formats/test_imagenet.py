"""ImageNet with its development kit, against torchvision's own parsing; and as Kaggle hands it out."""

import hashlib
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from torchvision.datasets import ImageNet, imagenet

from readers import open_dataset
from readers.formats.imagenet.dataset import ImageNetDataset
from readers.formats.imagenet.matlab import read_structures
from tests.support.annotated import put
from tests.support.opening import assert_refused
from tests.support.writers.imagenet import SYNSETS, write_devkit

Jpeg = Callable[..., bytes]
NUMBERS = [3, 1, 2, 2, 1]  # in the kit; by sorted ids they are 0, 2, 1, 1, 2
LABELS = [0, 2, 1, 1, 2]
IDS = ("n01440764", "n02100735", "n02119789")


@pytest.fixture
def val(tmp_path: Path, jpeg: Jpeg) -> Path:
    """Validation images in a folder of their own, with the kit beside it."""
    write_devkit(tmp_path / "ILSVRC2012_devkit_t12", NUMBERS)
    names = {f"ILSVRC2012_val_{n:08d}.JPEG": jpeg(8, 9, seed=n) for n in range(1, 6)}
    return put(tmp_path / "ILSVRC2012_img_val", names)


def test_classes_are_those_of_torchvision(
    val: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Torchvision unpacks the archives into class folders; each image has the class that it has here."""
    root = tmp_path / "torchvision"
    root.mkdir()
    parts = {"devkit": tmp_path / "ILSVRC2012_devkit_t12", "val": val}
    for part, source in parts.items():
        name = imagenet.ARCHIVE_META[part][0]
        with tarfile.open(root / name, "w:gz" if part == "devkit" else "w") as archive:
            if part == "devkit":
                archive.add(source, source.name)
            for path in sorted(source.iterdir()) if part == "val" else ():
                archive.add(path, path.name)
        digest = hashlib.md5((root / name).read_bytes()).hexdigest()
        monkeypatch.setitem(imagenet.ARCHIVE_META, part, (name, digest))
    theirs = ImageNet(str(root), split="val")
    dataset = open_dataset(val, devkit=tmp_path / "ILSVRC2012_devkit_t12")
    expected = {Path(path).name: label for path, label in theirs.samples}

    assert {one.key: one.label for one in dataset.fetch(range(5))} == expected
    assert list(expected.values()) != LABELS  # torchvision sorts by class
    assert (dataset.column("label").tolist(), list(dataset.class_names)) == (LABELS, theirs.wnids)
    assert isinstance(dataset, ImageNetDataset)
    assert [tuple(words.split(", ")) for words in dataset.words] == theirs.classes
    in_folders = open_dataset(root, format="imagenet", devkit=parts["devkit"], split="val")
    assert {Path(one.key).name: one.label for one in in_folders.fetch(range(5))} == expected


def test_a_folder_with_kit_train_and_val(val: Path, tmp_path: Path, jpeg: Jpeg) -> None:
    """It is recognised; classes count by the kit's list, whichever folders are there; a subset keeps its lines."""
    val.rename(tmp_path / "val")
    put(tmp_path / "train", {f"{wnid}/{wnid}_1.JPEG": jpeg(8, 9) for wnid in IDS[1:]})
    assert_refused("holds the splits train, validation", tmp_path)
    train = open_dataset(tmp_path, split="train")
    assert (train.column("label").tolist(), train.class_names) == ([1, 2], IDS)
    (tmp_path / "val" / "ILSVRC2012_val_00000002.JPEG").unlink()
    subset = open_dataset(tmp_path, split="validation")
    assert subset.column("label").tolist() == [0, 1, 1, 2]
    (tmp_path / "train" / "n00000000").mkdir()
    assert_refused("n00000000, which is none of the 3 classes", tmp_path, split="train")


def test_kaggle(tmp_path: Path, jpeg: Jpeg) -> None:
    """Classes by the lines of the mapping, of validation images by the solution, in whatever order; none in test."""
    lines = [f"{wnid} {words}\n" for _, wnid, words, children in SYNSETS if not children]
    (tmp_path / "LOC_synset_mapping.txt").write_text("".join(sorted(lines)))
    images = tmp_path / "ILSVRC" / "Data" / "CLS-LOC"
    names = [
        *(f"val/ILSVRC2012_val_{number:08d}" for number in (1, 2)),
        "test/ILSVRC2012_test_00000001",
        "train/n02119789/n02119789_3",
    ]
    put(images, {f"{name}.JPEG": jpeg(8, 9) for name in names})
    assert_refused(r"LOC_val_solution.csv is missing", tmp_path, split="val")
    solution = tmp_path / "LOC_val_solution.csv"
    head = "ImageId,PredictionString\n"
    rows = (
        "ILSVRC2012_val_00000002,n02119789 1 1 3 3 n02119789 5 5 9 9 \n"
        "ILSVRC2012_val_00000001,n01440764 2 3 4 4 \n"
    )
    solution.write_text(head + rows)

    for split, labels in {"val": [0, 2], "train": [2], "test": [-1]}.items():
        assert open_dataset(tmp_path, split=split).column("label").tolist() == labels
    for wrong, match in (
        (rows.splitlines()[0], r"1 of 2 validation images \(ILSVRC2012_val_00000001"),
        (rows.replace("n01440764", "n09999999"), "line 3: it must have an ImageId and boxes"),
        (rows.replace("2 3 4 4", "2 3 4"), "line 3: it must have"),
    ):
        solution.write_text(head + wrong)
        assert_refused(match, tmp_path, split="val")
    (tmp_path / "LOC_synset_mapping.txt").write_text("".join(sorted(lines, reverse=True)))
    assert_refused("sorted by id: restore it", tmp_path, split="val")


def test_kits_that_do_not_fit(val: Path, tmp_path: Path) -> None:
    """No kit, a kit that is damaged, more images than lines, a class that is none."""
    kit = tmp_path / "ILSVRC2012_devkit_t12"
    assert_refused(r"holds no meta.mat: give the folder", val, devkit=tmp_path / "nowhere")
    truth = kit / "data" / "ILSVRC2012_validation_ground_truth.txt"
    for text, match in (
        ("3\n1\n", r"5 validation images .* and 2 lines of .* do not fit"),
        ("1001\n" * 5, "cannot be read as one number of a class"),
        ("x\n" * 5, "cannot be read as one number of a class"),
    ):
        truth.write_text(text)
        assert_refused(match, val, devkit=kit)
    (kit / "data" / "meta.mat").write_bytes(b"no matrix")
    assert_refused("cannot be read as ImageNet's classes", val, devkit=kit)


@pytest.mark.parametrize("compressed", [False, True])
def test_structures_are_those_of_scipy(tmp_path: Path, compressed: bool) -> None:
    """Text of any alphabet, numbers of any type, and fields that are neither, compressed and not."""
    scipy = pytest.importorskip("scipy.io")
    rows = [(1.0, "tench, Tinca", 0, np.zeros((0, 0))), (70000.0, "größe", 300, np.arange(3.0))]
    names = ("id", "words", "count", "others")
    table = np.array(rows, dtype=[(name, "O") for name in names]).reshape(-1, 1)
    path = tmp_path / "a.mat"
    scipy.savemat(path, {"first": np.arange(9), "table": table}, do_compression=compressed)
    theirs = scipy.loadmat(path, squeeze_me=True)["table"]
    found = read_structures(path.read_bytes(), "table")

    assert len(found) == len(theirs) == 2
    for ours, row in zip(found, theirs, strict=True):
        assert [ours[name] for name in names[:3]] == [row[name] for name in names[:3]]
        assert ours["others"] is None
    data = path.read_bytes()
    for stop in range(0, len(data), 7):
        with pytest.raises(ValueError, match="it "):
            read_structures(data[:stop], "table")
    with pytest.raises(ValueError, match="has no table other"):
        read_structures(data, "other")


def test_damaged_structures(tmp_path: Path) -> None:
    """Random changes of bytes give other values or a ValueError, and nothing else."""
    kit = write_devkit(tmp_path / "kit", NUMBERS)
    data = (kit / "data" / "meta.mat").read_bytes()
    rng, refused = np.random.default_rng(0), 0
    for _ in range(300):
        changed = bytearray(data)
        for place in rng.integers(0, len(data), 3).tolist():
            changed[place] = int(rng.integers(256))
        try:
            read_structures(bytes(changed), "synsets")
        except ValueError:
            refused += 1

    assert refused > 30
