"""Labels, keys and payloads of records, the same over all formats: a bad one is one BadSample."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from readers import BadSample, SourceError, open_dataset
from readers.formats.columns import UNREADABLE, to_key, to_label, to_labels, to_payload
from readers.sample import checked_indices
from tests.support.writers.mds import write_mds

Jpeg = Callable[..., bytes]
MOST = 2**63 - 1


@pytest.mark.parametrize(
    ("value", "label"),
    [
        (None, -1),
        (-1, -1),
        (True, 1),
        (7.0, 7),
        (" 12 ", 12),
        (b"3", 3),
        (b"\xef\xbb\xbf4\n", 4),
        (MOST, MOST),
        (str(MOST), MOST),
    ],
)
def test_labels(value: Any, label: int) -> None:
    """Whole numbers from 0 to 2**63 - 1, however they are written, and -1 for none."""
    assert to_label(value) == label


@pytest.mark.parametrize(
    "value",
    [
        *(2**63, 2**64 - 1, 10**30, 10**300, 1e300, -2, -(2**63), "-5"),
        *(0.5, float("nan"), float("inf"), "x", [1], {}, "9" * 5000, "9" * 19),
        *(b"-3", "1.5", "1_0", b"\xd9\xa3", "[0, 1]"),
    ],
)
def test_labels_that_are_none(value: Any) -> None:
    """Each is refused with one short sentence."""
    with pytest.raises(ValueError, match=r"^the label .* is ") as error:
        to_label(value)

    assert len(str(error.value)) < 180
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", ["u1", "i1", "i8", "u8", "?"])
def test_labels_of_arrays(kind: str) -> None:
    """As one by one."""
    values = np.array([0, 1, 255, 2**63 - 1, 2**63, 2**64 - 1], "u8").astype(kind)
    expected = []
    for value in values.tolist():
        try:
            expected.append(to_label(value))
        except ValueError:
            expected.append(UNREADABLE)

    assert to_labels(values).tolist() == expected
    assert to_labels(values).dtype == np.int64


@pytest.mark.parametrize("kind", ["f2", "f4", "f8", ">f8"])
def test_labels_of_arrays_of_floats(kind: str) -> None:
    """As one by one: whole ones count."""
    values = np.array([0, 1.5, 7, -1, -2, -0.0, np.nan, np.inf, -np.inf, 2.0**63, 2.0**62], "f8")
    with np.errstate(over="ignore"):
        values = values.astype(kind)

    assert to_labels(values).tolist() == to_labels(values.tolist()).tolist()
    assert (to_labels(values) == UNREADABLE).sum() == (7 if kind == "f2" else 6)


def test_half_characters() -> None:
    """JSON writes them out, keys show them, and plain text refuses them."""
    assert to_payload({"\ud800": "ä"}) == b'{"\\ud800":"\\u00e4"}'
    assert to_payload("\udcff") == b"\xff"
    assert [to_key(text) for text in ("a\ud800/\udcff\0", "\udcff")] == [
        "a\\ud800/\\udcff\0",
        "\udcff",
    ]
    with pytest.raises(ValueError, match=r"the text 'x\\ud800' has an unpaired surrogate"):
        to_payload("x\ud800")


@pytest.mark.parametrize(
    ("indices", "match"),
    [
        (np.array([[0, 1], [2, 3]]), r"got an array of the shape \(2, 2"),
        (np.uint8(1), r"got an array of the shape \("),
        (np.zeros((0, 2), int), r"got an array of the shape \(0, 2"),
        ([[1], [1, 2]], "indices must be a sequence of integers"),
        ([0.5], "indices must be integers, got float64"),
        *(
            (wrong, "^index must be in 0 <= index < 9, got (9|-1)$")
            for wrong in ([9], [-1], np.array([0, 9]))
        ),
    ],
)
def test_indices_that_are_none(indices: Any, match: str) -> None:
    """The sentence names the shape, the type or the range."""
    with pytest.raises((TypeError, IndexError), match=match):
        checked_indices(indices, 9)


def _parquet(folder: Path, images: list[bytes], labels: list[int]) -> Any:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pa.table({"image": images, "label": pa.array(labels, pa.uint64())})
    pq.write_table(table, folder / "a.parquet")
    return folder / "a.parquet"


def _hdf5(folder: Path, images: list[bytes], labels: list[int]) -> Any:
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "a.h5", "w") as file:
        file["images"] = np.zeros((len(images), 4, 4, 3), np.uint8)
        file["labels"] = np.array(labels, np.uint64)
    return folder / "a.h5"


def _npy(folder: Path, images: list[bytes], labels: list[int]) -> Any:
    np.save(folder / "a.npy", np.zeros((len(images), 4, 4, 3), np.uint8))
    np.save(folder / "a_labels.npy", np.array(labels, np.uint64))
    return folder / "a.npy"


def _mds(folder: Path, images: list[bytes], labels: list[int]) -> Any:
    rows = [
        {"image": image, "label": struct.pack("<Q", label)}
        for image, label in zip(images, labels, strict=True)
    ]
    write_mds(folder, {"image": ("jpeg", None), "label": ("uint64", 8)}, rows)
    return folder


@pytest.mark.parametrize("write", [_parquet, _hdf5, _npy, _mds])
@pytest.mark.parametrize("bad", [0, 1])
def test_a_label_of_64_bits_is_one_bad_sample(
    tmp_path: Path, jpeg: Jpeg, write: Callable[..., Any], bad: int
) -> None:
    """In formats of numbers, and the column of labels is refused; tests/readers/loss/labels.py has texts."""
    images = [jpeg(9, 8, seed=number) for number in range(3)]
    labels = [4, 5, MOST]
    labels[bad] = 2**64 - 2
    dataset = open_dataset(write(tmp_path, images, labels))
    others = [number for number in range(3) if number != bad]
    entries = dataset.fetch([0, 1, 2])

    with pytest.raises(SourceError, match=r"the label .*; 1 of 3 samples have a label that cannot"):
        dataset.column("label")
    assert dataset.take(others).column("label").tolist() == [labels[number] for number in others]
    assert "the label" in entries[bad].reason
    assert [entries[number].label for number in others] == [labels[number] for number in others]
    assert isinstance(dataset.fetch([bad])[0], BadSample)
